"""A rule as the catalogue lists it: declared facts, parameters, and what happens at temperature 0.

Rows at temperature 0 take a branch of their own: no division by the temperature, and for the
greedy branch no softmax.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from torch import Tensor

from specbench.core.parameter import checked
from specbench.decoding.laws import DraftLaws
from specbench.decoding.protocols import Acceptance, RuleInfo, States, Uniforms
from specbench.decoding.rows import TargetRows
from specbench.decoding.tree import TokenTree, Trials
from specbench.verify.argmax import greedy

RuleFunction = Callable[..., tuple[Acceptance, States]]
"""``(tree, trials, rows, laws, states, uniforms, **parameters)``."""

LawFunction = Callable[..., Tensor]
"""``(rows, places, draft, states, **parameters)``, see ``Rule.output_law``."""

Check = Callable[[Mapping[str, Any], int | None], None]
"""``(values, k)``: raises UsageError where parameters do not fit each other or the draft length."""


class ListedRule:
    """Pure functions with declared facts; the functions take ``info.parameters`` by name.

    In a mixed batch ``sampled`` judges all rows; the greedy rows' processed probabilities are
    one-hot there, for which sampled rules reduce to exact greedy matching.

    Args:
        info: declared facts.
        sampled: judges rows at temperature > 0; None for rules of temperature 0 alone.
        at_zero: judges batches that are greedy throughout.
        law: the law of an emitted token, for lossy rules that judge token by token.
        admit: the state of a new request, from its tokens so far.
        check: refuses parameters that do not fit each other or the draft length.
    """

    def __init__(
        self,
        info: RuleInfo,
        sampled: RuleFunction | None,
        at_zero: RuleFunction = greedy,
        *,
        law: LawFunction | None = None,
        admit: Callable[..., object] | None = None,
        check: Check | None = None,
    ) -> None:
        self.info = info
        self._sampled = sampled
        self._at_zero = at_zero
        self._law = law
        self._admit = admit
        self._check = check

    def configure(self, options: Mapping[str, object], k: int | None = None) -> ListedRule:
        """The rule with an arm's parameters; see ``Rule``."""
        values = checked(self.info.parameters, options, f"rule {self.info.name}")
        if self._check:
            self._check(values, k)

        def bound(function: Callable[..., Any] | None) -> Any:
            return partial(function, **values) if function else None

        # The greedy branch that all rules share takes no parameters.
        at_zero = self._at_zero if self._at_zero is greedy else bound(self._at_zero)
        law, admit = bound(self._law), bound(self._admit)
        return ListedRule(self.info, bound(self._sampled), at_zero, law=law, admit=admit)

    def admit(self, tokens: Sequence[int]) -> object:
        """The state of a new request; see ``Rule``."""
        return self._admit(tokens) if self._admit else None

    def output_law(
        self, rows: TargetRows, places: Tensor, draft: Tensor | None, states: States
    ) -> Tensor | None:
        """Law of the emitted token at n positions; see ``Rule``."""
        return self._law(rows, places, draft, states) if self._law else None

    def __call__(
        self,
        tree: TokenTree,
        trials: Trials,
        rows: TargetRows,
        laws: DraftLaws,
        states: States,
        uniforms: Uniforms,
    ) -> tuple[Acceptance, States]:
        """Judge a batch; see ``Rule``. ValueError where it does not judge sampled rows."""
        function = self._at_zero if rows.all_greedy else self._sampled
        if function is None:
            raise ValueError(f"rule {self.info.name} judges temperature 0 only")
        return function(tree, trials, rows, laws, states, uniforms)
