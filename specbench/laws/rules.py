"""The acceptance rules of the catalogue as samplers of rounds."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from specbench.core.request import Sampling
from specbench.decoding.laws import DenseLaws, DraftLaws, OneHotLaws
from specbench.decoding.protocols import Acceptance, Rule, Uniforms
from specbench.decoding.rows import TargetRows
from specbench.decoding.tree import TokenTree, TrialKind, Trials, chain, chain_trials
from specbench.laws.rounds import PAD, Rounds


@dataclass(frozen=True, slots=True)
class RuleSampler:
    """A configured rule, judging chains.

    Attributes:
        rule: reads one accept number per draft and one number for the token behind them, or its
            own draw at every position; never both, so the same numbers serve for either.
        temperature: of the target rows, 1 or 0.
    """

    rule: Rule
    temperature: float = 1.0

    def __call__(self, given: Rounds) -> Tensor:
        """The emitted tokens int64 [n, K + 1], padded with -1."""
        tree = chain(given.ids, (given.k,) * len(given.ids))
        trials = chain_trials(tree, TrialKind.IID if given.sampled else TrialKind.ONE_HOT)
        laws: DraftLaws = OneHotLaws()
        if given.sampled:
            laws = DenseLaws(given.draft[given.source])
        rows = target_rows(given.target, given.position, self.temperature)
        numbers = torch.cat([given.accept, given.last[:, None]], 1)
        uniforms = Uniforms(given.accept, given.last, given.last, numbers)
        return judged(self.rule, tree, trials, rows, laws, uniforms, given.position[:, 0])


@dataclass(frozen=True, slots=True)
class DrawnRule:
    """A configured rule as a sampler that draws from a generator: for kernels with own numbers.

    Attributes:
        rule: judges chains.
        device: where it runs.
    """

    rule: Rule
    device: torch.device

    def __call__(self, given: Rounds, generator: torch.Generator) -> Tensor:
        """The emitted tokens int64 [n, K + 1], padded with -1, on the host."""
        shape = len(given.ids), given.k + 1
        numbers = torch.rand(
            shape, generator=generator, dtype=torch.float64, device=generator.device
        )
        drawn = replace(given, accept=numbers[:, :-1], last=numbers[:, -1])
        return RuleSampler(self.rule)(drawn.on(self.device)).cpu()


def target_rows(target: Tensor, position: Tensor, temperature: float) -> TargetRows:
    """Target rows of probabilities [M, V] at positions int64 [n, N + 1]."""
    return TargetRows(target.log(), position, [Sampling(temperature)] * len(target))


def judged(
    rule: Rule, tree: TokenTree, trials: Trials, rows: TargetRows, laws: DraftLaws,
    uniforms: Uniforms, starts: Tensor,
) -> Tensor:  # fmt: skip
    """One call of a rule: the emitted tokens int64 [n, N + 1], padded with -1.

    ``starts`` int64 [n] are the tokens before, from which a rule's state begins.
    """
    if rule.info.stateful:
        first = {start: rule.admit([start]) for start in starts.unique().tolist()}
        states = [first[start] for start in starts.tolist()]
    else:
        states = [None] * len(starts)
    verdict, _ = rule(tree, trials, rows, laws, states, uniforms)
    return emitted(tree, verdict)


def emitted(tree: TokenTree, verdict: Acceptance) -> Tensor:
    """Accepted tokens in order, then the next token, int64 [n, N + 1] padded with -1."""
    path = verdict.path[:, : tree.width]
    accepted = tree.ids.gather(1, path.clamp(min=0))
    accepted = torch.cat([accepted, torch.full_like(verdict.next_token[:, None], PAD)], 1)
    slots = torch.arange(tree.width + 1, device=path.device)
    count = verdict.n_accepted[:, None]
    tokens = torch.where(slots < count, accepted, PAD)
    return torch.where(slots == count, verdict.next_token[:, None], tokens)
