"""Fixed positions with known target and draft rows, from which tokens are emitted again and again.

What a fidelity test sees of a token depends on the two rows at its position and on the token alone.
So for a fixed set of positions every column of evidence is a table over the vocabulary, computed
once; emitting n tokens costs one call of the rule under test and one look-up per column. That makes
hundreds of repeated runs affordable, over rows of a real model as well as over random ones.

Shapes: N positions, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from specbench.core.request import Sampling
from specbench.core.trace import LENIENCE
from specbench.decoding.laws import DenseLaws, DraftLaws, OneHotLaws
from specbench.decoding.protocols import Rule, Uniforms
from specbench.decoding.rows import TargetRows
from specbench.decoding.sampling import draw, probabilities, tempered
from specbench.decoding.tree import TrialKind, chain, chain_trials
from specbench.fidelity.columns import Columns


@dataclass(frozen=True)
class Positions:
    """Positions of one setting.

    Attributes:
        logits: [N, V] of the target.
        draft: [N, V] draft probabilities, already processed.
        sampling: the declared settings of the target.
        sampled: whether drafts are drawn from ``draft``, or are its argmax.
    """

    logits: Tensor
    draft: Tensor
    sampling: Sampling
    sampled: bool

    @cached_property
    def target(self) -> Tensor:
        """Target probabilities [N, V]."""
        return probabilities(self.logits, [self.sampling] * len(self.logits))

    @cached_property
    def law(self) -> Tensor:
        """The law drafts are really drawn from [N, V]."""
        if self.sampled:
            return self.draft
        return torch.zeros_like(self.draft).scatter_(1, self.draft.argmax(1)[:, None], 1.0)

    @cached_property
    def before(self) -> Tensor:
        """Target mass of the tokens before each one [N, V], in descending draft/target order."""
        ratio = self.law / self.target.clamp(min=1e-38)
        order = ratio.sort(dim=1, descending=True, stable=True).indices
        mass = self.target.gather(1, order).double()
        return torch.zeros_like(mass).scatter_(1, order, mass.cumsum(1) - mass).float()

    @cached_property
    def moments(self) -> tuple[Tensor, Tensor, Tensor]:
        """Entropy, its variance, and the sum of squares, each float64 [N]."""
        target = self.target.double()
        logs = torch.where(target > 0, target, 1.0).log()
        entropy = -(target * logs).sum(1)
        return entropy, (target * logs**2).sum(1) - entropy**2, (target**2).sum(1)

    def emit(
        self,
        rule: Rule,
        generator: np.random.Generator,
        *,
        laws: DraftLaws | None = None,
        sampling: Sampling | None = None,
        sampled: bool | None = None,
    ) -> Tensor:
        """The first token of a step at every position, int64 [N]; one draft token each.

        Args:
            rule: judges the drafts.
            laws: what the rule is told of the draft law; the truth where not given.
            sampling: settings that are really applied; the declared ones where not given.
            sampled: whether drafts are really drawn; as declared where not given.
        """
        count = len(self.logits)

        def numbers(*shape: int) -> Tensor:
            return torch.from_numpy(generator.random((count, *shape)))

        drawn = self.sampled if sampled is None else sampled
        ids = draw(self.draft, numbers()) if drawn else self.draft.argmax(1)
        tree = chain(ids[:, None], (1,) * count)
        trials = chain_trials(tree, TrialKind.IID if drawn else TrialKind.ONE_HOT)
        # The bonus position is never looked at: the first token is known before it.
        index = torch.arange(count)[:, None].expand(count, 2)
        settings = sampling or self.sampling
        rows = TargetRows(self.logits, index, [settings] * count)
        if laws is None:
            laws = DenseLaws(self.draft[:, None]) if drawn else OneHotLaws()
        uniforms = Uniforms(numbers(1), numbers(), numbers(), numbers(2))
        verdict, _ = rule(tree, trials, rows, laws, [None] * count, uniforms)
        return torch.where(verdict.n_accepted > 0, ids, verdict.next_token)

    def columns(self, tokens: Tensor, generator: np.random.Generator) -> Columns:
        """Evidence of one emitted token per position, as the engine would record it."""
        at = tokens[:, None]
        own = self._pick(self.target, at)
        entropy, variance, squares = (column.numpy() for column in self.moments)
        first, top = self.law.argmax(1), self.target.max(1)
        whole = self.sampling.temperature == 1.0 and self.sampling.untruncated
        shaped = np.full(len(own), np.nan)
        outside = np.full(len(own), np.nan)
        outside[own == 0] = -np.inf
        with np.errstate(divide="ignore"):
            return Columns(
                drafted=np.ones(len(own), np.bool_),
                log_target=np.log(own),
                log_draft=np.log(self._pick(self.law, at)),
                entropy=entropy,
                entropy_variance=variance.clip(min=0),
                sum_squares=squares,
                pit_low=self._pick(self.before, at),
                pit_width=own,
                overlap_lenient=torch.minimum(self.target / LENIENCE, self.law).sum(1).numpy(),
                draft_top_target=self._pick(self.target, first[:, None]),
                draft_top_hit=(first == tokens).double().numpy(),
                target_top=top.values.double().numpy(),
                target_top_hit=(top.indices == tokens).double().numpy(),
                log_untempered=shaped if whole else np.log(self._pick(self.untempered, at)),
                support_margin=outside,
                uniform=generator.random(len(own)),
            )

    @cached_property
    def untempered(self) -> Tensor:
        """softmax(logits) [N, V]."""
        return tempered(self.logits, 1.0)

    def _pick(self, table: Tensor, at: Tensor) -> np.ndarray:
        return table.gather(1, at).squeeze(1).double().numpy()


def random_positions(
    count: int,
    vocabulary: int,
    sampling: Sampling,
    spread: float,
    noise: float,
    generator: np.random.Generator,
    sampled: bool = True,
) -> Positions:
    """Normal target logits, and a draft that sees them through normal noise.

    Args:
        spread: standard deviation of the target's logits.
        noise: standard deviation of the noise on the draft's logits.
    """
    logits = spread * torch.from_numpy(generator.normal(size=(count, vocabulary))).float()
    blurred = logits + noise * torch.from_numpy(generator.normal(size=(count, vocabulary))).float()
    draft = probabilities(blurred, [sampling] * count)
    return Positions(logits, draft, sampling, sampled)
