"""Acceptance captured by shape and replayed, for rules that decide nothing on the host.

A rule over a batch of chains is some dozens of small kernels. Replayed, they cost one launch.
Captured are batches whose requests all drafted the same number of tokens under the same settings;
any other is judged eagerly, with the same verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import torch
from torch import Tensor

from specbench.core.request import Sampling
from specbench.decoding.laws import DenseLaws, DraftLaws
from specbench.decoding.protocols import Acceptance, Rule, RuleInfo, States, Uniforms
from specbench.decoding.rows import TargetRows
from specbench.decoding.tree import TokenTree, Trials
from specbench.models.graphs.captured import FAILURES, Graphs, first_line
from specbench.models.graphs.record import Replay


class Given(NamedTuple):
    """What a rule judges; see ``Rule.__call__``."""

    tree: TokenTree
    trials: Trials
    rows: TargetRows
    laws: DraftLaws
    states: States
    uniforms: Uniforms


@dataclass(frozen=True, slots=True)
class Shape:
    """What a capture is of: B requests of N tokens each.

    Attributes:
        logits: [M, V] and its type.
        dense: whether drafts have rows of their own.
        sampling: of every request.
    """

    batch: int
    nodes: int
    vocabulary: int
    dtype: torch.dtype
    dense: bool
    sampling: Sampling


class CapturedRule:
    """A rule whose verdicts are replayed where they can be; see ``decoding.protocols.Rule``.

    Args:
        rule: one that declares ``device_only``.
        graphs: records, and says when.
    """

    def __init__(self, rule: Rule, graphs: Graphs) -> None:
        self.info: RuleInfo = rule.info
        self._rule = rule
        self._graphs = graphs
        self._captured: dict[Shape, CapturedVerdict | None] = {}

    def configure(self, options: Mapping[str, object], k: int | None = None) -> Rule:
        """The rule with other parameters, captured anew."""
        return CapturedRule(self._rule.configure(options, k), self._graphs)

    def admit(self, tokens: Sequence[int]) -> object:
        """The rule's own."""
        return self._rule.admit(tokens)

    def output_law(
        self, rows: TargetRows, places: Tensor, draft: Tensor | None, states: States
    ) -> Tensor | None:
        """The rule's own."""
        return self._rule.output_law(rows, places, draft, states)

    def __call__(
        self,
        tree: TokenTree,
        trials: Trials,
        rows: TargetRows,
        laws: DraftLaws,
        states: States,
        uniforms: Uniforms,
    ) -> tuple[Acceptance, States]:
        """Judge a batch."""
        given = Given(tree, trials, rows, laws, states, uniforms)
        found = self._find(given)
        return self._rule(*given) if found is None else (found(given), states)

    def _find(self, given: Given) -> CapturedVerdict | None:
        """The capture that judges this batch, made now if it is time."""
        shape = shape_of(given)
        if shape is None:
            return None
        if self._graphs.capturing and shape not in self._captured:
            try:
                self._captured[shape] = CapturedVerdict(self._rule, self._graphs, given)
            except FAILURES as error:
                self._captured[shape] = None
                self._graphs.failed[first_line(error)] += 1
        return self._captured.get(shape)


def shape_of(given: Given) -> Shape | None:
    """The shape of a batch that can be captured; None for any other."""
    tree, rows = given.tree, given.rows
    settings = set(rows.sampling)
    even = tree.chain and len(set(tree.counts)) == 1 and tree.counts[0] == tree.width
    if not even or len(settings) != 1 or rows.penalised:
        return None
    return Shape(
        len(tree.counts),
        tree.width,
        rows.raw.shape[1],
        rows.raw.dtype,
        isinstance(given.laws, DenseLaws),
        settings.pop(),
    )


class CapturedVerdict:
    """One rule over one shape, on static inputs.

    Args:
        rule: recorded.
        graphs: records it.
        given: a batch of the shape. What is the same for all of them (parents, the order of
            trials, where rows lie) is taken from it.
    """

    def __init__(self, rule: Rule, graphs: Graphs, given: Given) -> None:
        tree, trials, rows, laws, states, uniforms = given
        self._ids = tree.ids.clone()
        self._logits = rows.raw.clone()
        self._laws = laws.rows.clone() if isinstance(laws, DenseLaws) else None
        self._uniforms = Uniforms(*(getattr(uniforms, f.name).clone() for f in fields(uniforms)))
        index, sampling, kernels = rows.index.clone(), rows.sampling, rows.kernels

        def judge() -> tuple[Tensor, ...]:
            verdict, _ = rule(
                replace(tree, ids=self._ids),
                trials,
                TargetRows(self._logits, index, sampling, kernels=kernels),
                laws if self._laws is None else DenseLaws(self._laws),
                states,
                self._uniforms,
            )
            return verdict.path, verdict.n_accepted, verdict.next_token, verdict.kind

        self._replay: Replay = graphs.record(judge)

    def __call__(self, given: Given) -> Acceptance:
        """The verdict over a batch of this shape; a copy."""
        self._ids.copy_(given.tree.ids)
        self._logits.copy_(given.rows.raw)
        if self._laws is not None and isinstance(given.laws, DenseLaws):
            self._laws.copy_(given.laws.rows)
        for field in fields(given.uniforms):
            getattr(self._uniforms, field.name).copy_(getattr(given.uniforms, field.name))
        return Acceptance(*(part.clone() for part in self._replay()))
