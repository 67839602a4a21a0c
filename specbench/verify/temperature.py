"""A rule as the catalogue lists it: declared facts, parameters, and what happens at temperature 0.

Rows at temperature 0 take a branch of their own: no division by the temperature, and for the
greedy branch no softmax.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from specbench.core.parameter import checked
from specbench.decoding.laws import DraftLaws
from specbench.decoding.protocols import Acceptance, RuleInfo, States, Uniforms
from specbench.decoding.rows import TargetRows
from specbench.decoding.tree import TokenTree, Trials
from specbench.verify.greedy import greedy

RuleFunction = Callable[..., tuple[Acceptance, States]]
"""``(tree, trials, rows, laws, states, uniforms, **parameters)``."""


class TemperedRule:
    """Two pure functions: one for sampled rows, one for batches that are greedy throughout.

    In a mixed batch the first one judges all rows; the greedy rows' processed probabilities are
    one-hot there, for which sampled rules reduce to exact greedy matching.

    Args:
        info: declared facts; the functions take ``info.parameters`` by name.
        sampled: judges rows at temperature > 0.
        at_zero: judges greedy batches; exact greedy matching unless the rule has its own meaning.
    """

    def __init__(
        self, info: RuleInfo, sampled: RuleFunction, at_zero: RuleFunction | None = None
    ) -> None:
        self.info = info
        self._sampled = sampled
        self._at_zero = at_zero

    def configure(self, options: Mapping[str, object]) -> TemperedRule:
        """The rule with an arm's parameters."""
        values = checked(self.info.parameters, options, f"rule {self.info.name}")
        at_zero = partial(self._at_zero, **values) if self._at_zero else None
        return TemperedRule(self.info, partial(self._sampled, **values), at_zero)

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
        function = (self._at_zero or greedy) if rows.all_greedy else self._sampled
        return function(tree, trials, rows, laws, states, uniforms)
