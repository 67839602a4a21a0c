"""A rule that judges temperature 0 only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from specbench.core.parameter import checked
from specbench.decoding.laws import DraftLaws
from specbench.decoding.protocols import Acceptance, RuleInfo, States, Uniforms
from specbench.decoding.rows import TargetRows
from specbench.decoding.tree import TokenTree, Trials


class ZeroTemperatureRule:
    """A pure function over argmax or raw rows, with its declared facts.

    Args:
        info: declared facts; the function takes ``info.parameters`` by name.
        function: ``(tree, trials, rows, laws, states, uniforms, **parameters)``.
    """

    def __init__(self, info: RuleInfo, function: Callable[..., tuple[Acceptance, States]]) -> None:
        self.info = info
        self._function = function

    def configure(self, options: Mapping[str, object]) -> ZeroTemperatureRule:
        """The rule with an arm's parameters."""
        values = checked(self.info.parameters, options, f"rule {self.info.name}")
        return ZeroTemperatureRule(self.info, partial(self._function, **values))

    def __call__(
        self,
        tree: TokenTree,
        trials: Trials,
        rows: TargetRows,
        laws: DraftLaws,
        states: States,
        uniforms: Uniforms,
    ) -> tuple[Acceptance, States]:
        """Judge a batch; ValueError where a row is sampled."""
        if not rows.all_greedy:
            raise ValueError(f"rule {self.info.name} judges temperature 0 only")
        return self._function(tree, trials, rows, laws, states, uniforms)
