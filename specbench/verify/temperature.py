"""Rows at temperature 0 take the greedy branch: no softmax, no division by the temperature."""

from __future__ import annotations

from collections.abc import Callable

from specbench.decoding.laws import DraftLaws
from specbench.decoding.protocols import Acceptance, RuleInfo, States, Uniforms
from specbench.decoding.rows import TargetRows
from specbench.decoding.tree import TokenTree, Trials
from specbench.verify.greedy import greedy

RuleFunction = Callable[
    [TokenTree, Trials, TargetRows, DraftLaws, States, Uniforms], tuple[Acceptance, States]
]


class TemperedRule:
    """A rule whose meaning at temperature 0 is exact greedy matching.

    A batch that is greedy throughout is judged by ``greedy`` alone. In a mixed batch the greedy
    rows' processed probabilities are one-hot, for which the sampled rules reduce to the same test.
    """

    def __init__(self, info: RuleInfo, function: RuleFunction) -> None:
        self.info = info
        self._function = function

    def __call__(
        self,
        tree: TokenTree,
        trials: Trials,
        rows: TargetRows,
        laws: DraftLaws,
        states: States,
        uniforms: Uniforms,
    ) -> tuple[Acceptance, States]:
        """Judge a batch; see ``Rule``."""
        function = greedy if rows.all_greedy else self._function
        return function(tree, trials, rows, laws, states, uniforms)
