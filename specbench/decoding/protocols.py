"""The contracts of the decode loop: drafter, acceptance rule, target; and their declared facts.

Shapes: B requests of the batch, N nodes, K draft length, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from torch import Tensor

from specbench.core.parameter import Parameter
from specbench.core.trace import ShortDraft
from specbench.decoding.laws import DraftLaws
from specbench.decoding.rows import TargetRows
from specbench.decoding.sequence import Sequence as DecodedSequence
from specbench.decoding.tree import TokenTree, Trials

RECOVERED = 0
"""``Acceptance.kind``: the next token replaces a rejected draft."""
BONUS = 1
"""``Acceptance.kind``: every draft on the path was accepted (or there was none)."""


@dataclass(frozen=True, slots=True)
class Tap:
    """A hidden state of the target that a drafter needs.

    ``side`` says which residual stream: ``entering`` or ``leaving`` the layer (0-based), or
    ``final`` for the state after the last norm, where ``layer`` is -1. EAGLE-3 checkpoints number
    layers in both ways; the side makes the convention explicit.
    """

    layer: int
    side: str


Options = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class DraftFacts:
    """What a drafter's drafts are like under given options; it decides which rules can judge them.

    Attributes:
        law: ``none``, ``one_hot`` or ``dense``: what tokens are drawn from.
        trials: how the candidates at one parent were chosen: ``one_hot``, ``iid``, ``independent``,
            ``without_replacement`` or ``deterministic_set``; empty where nothing is drafted.
        tree: whether drafts are trees rather than chains.
        stateful: whether state is carried from one request to the next; such a drafter has a
            method ``reset()`` that forgets it.
    """

    law: str
    trials: str = ""
    tree: bool = False
    stateful: bool = False


ANY = "..."
"""In ``DrafterInfo.variants``: whatever value the option has, as long as it is given."""

CHOSEN = DraftFacts("one_hot", "one_hot")
"""Chains of tokens chosen without chance."""
SAMPLED = DraftFacts("dense", "iid")
"""Chains of tokens drawn from full rows."""


@dataclass(frozen=True, slots=True)
class DrafterInfo:
    """Declared facts of a drafter, for lists, plans and refusals before a model loads.

    Attributes:
        name, summary, source: catalogue name, one line, where the method is described.
        default: what drafts are like where no option says otherwise.
        taps: hidden states of the target that it reads, in words; empty for none.
        kv: ``none``, ``own``, or ``target`` (aliases layers of the target).
        needs_model: whether ``options["model"]`` must be given.
        options: option name -> what it means, with its default.
        variants: combinations of options under which drafts are of another kind, with that kind;
            the last that an arm's options contain holds. ``ANY`` stands for every value given.
    """

    name: str
    summary: str
    source: str
    default: DraftFacts
    taps: str = ""
    kv: str = "none"
    needs_model: bool = False
    options: Mapping[str, str] = field(default_factory=dict)
    variants: Sequence[tuple[Options, DraftFacts]] = ()

    def facts(self, options: Options) -> DraftFacts:
        """What drafts are like under an arm's options."""
        found = self.default
        for wanted, facts in self.variants:
            if all(
                options.get(name) == value or (value == ANY and options.get(name) is not None)
                for name, value in wanted.items()
            ):
                found = facts
        return found

    def begins_alike(self, options: Options) -> bool:
        """Whether a shorter draft is surely the beginning of a longer one.

        A model that drafts token by token does not know how long its chain will be. A lookup may
        choose what it continues by the room it has, and a tree which nodes it keeps.
        """
        looks_up = self.kv == "none" and not self.taps and not self.needs_model
        return not self.facts(options).tree and not looks_up


class Lossless(StrEnum):
    """What is known about a rule's output law at T > 0."""

    PROVEN = "proven"
    MEASURED = "measured"
    CLAIMED = "claimed"
    LOSSY = "lossy"
    MEANINGLESS = "meaningless"
    """Acceptance is made up, for timing alone; the output says nothing."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class RuleInfo:
    """Declared facts of an acceptance rule.

    Attributes:
        name, source: catalogue name; paper and algorithm.
        lossless: status of the output law against the target's.
        needs: target rows it reads: ``argmax``, ``raw`` (temperature 1, no truncation),
            ``tempered`` (temperature, no truncation), ``processed`` (all settings).
        laws: draft laws it accepts, of ``one_hot`` and ``dense``.
        tree: whether it judges trees as well as chains.
        trials: how the candidates tried at one parent may have been chosen; empty for rules that
            do not read draft laws, which take any.
        temperature_zero: what it does at temperature 0.
        sampled: whether it judges rows at temperature > 0 at all.
        parameters: name -> meaning, default and range.
        exact_at: parameter values at which a lossy rule is lossless; empty where there are none.
        stateful: whether it keeps a state per request over steps.
        random_at_zero: whether it reads random numbers at temperature 0 too.
        device_only: whether it judges chains without reading anything on the host, and keeps no
            state; then its kernels can be captured.
        library: package of GPU kernels that judge for it, without which and a CUDA device it does
            not run; empty for rules in torch.
        batch_seeded: whether the numbers that it draws depend on a request's place in the batch;
            then so do its tokens, though not their law.
    """

    name: str
    source: str
    lossless: Lossless
    needs: str
    laws: tuple[str, ...]
    tree: bool
    temperature_zero: str
    trials: tuple[str, ...] = ()
    sampled: bool = True
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    exact_at: Mapping[str, float] = field(default_factory=dict)
    stateful: bool = False
    random_at_zero: bool = False
    device_only: bool = False
    library: str = ""
    batch_seeded: bool = False

    def lossless_with(self, options: Mapping[str, object]) -> Lossless:
        """What is known of the output law under an arm's parameters."""
        values = {name: options.get(name, p.default) for name, p in self.parameters.items()}
        exact = self.exact_at and all(values[name] == at for name, at in self.exact_at.items())
        return Lossless.PROVEN if exact else self.lossless


@dataclass(frozen=True, slots=True)
class Draft:
    """What a drafter proposes for a batch.

    Attributes:
        tree: the nodes sent to the target.
        trials: the order in which they are tried.
        laws: the distributions the tokens were really drawn from; a rule uses the same rows in its
            ratio and in its residual.
        short: per request, why fewer than K tokens lie on the longest path.
        proposed: per request, nodes produced before any selection among them.
        sound: bool [B] on the device, whether every row of the draft named a token; None where
            the drafter has looked.
    """

    tree: TokenTree
    trials: Trials
    laws: DraftLaws
    short: tuple[ShortDraft, ...]
    proposed: tuple[int, ...]
    sound: Tensor | None = None


@dataclass(frozen=True, slots=True)
class Uniforms:
    """Uniform numbers in [0, 1), float64, one field per stream; a rule reads what it needs.

    Attributes:
        accept: [B, R] one per trial.
        residual: [B] for the token after a rejection.
        bonus: [B] for the token after full acceptance.
        target: [B, N + 1] for the target's own draw at every position of a chain.
    """

    accept: Tensor
    residual: Tensor
    bonus: Tensor
    target: Tensor


@dataclass(frozen=True, slots=True)
class Acceptance:
    """A rule's verdict, in fixed shapes that may live on the device.

    Attributes:
        path: int64 [B, K + 1], accepted node indices in order, padded with -1.
        n_accepted: int64 [B], length of the accepted path.
        next_token: int64 [B], the token after it.
        kind: int64 [B], ``RECOVERED`` or ``BONUS``.
    """

    path: Tensor
    n_accepted: Tensor
    next_token: Tensor
    kind: Tensor


States = Sequence[object]


class Rule(Protocol):
    """An acceptance rule: a pure, vectorised function with declared facts.

    ``states`` hold what the rule keeps per request over steps, one entry per row of the batch;
    None where it keeps nothing. A rule returns new entries and changes none in place.
    """

    info: RuleInfo

    def configure(self, options: Mapping[str, object], k: int | None = None) -> Rule:
        """The rule with an arm's parameters. UsageError for unknown names and bad values.

        Args:
            options: parameter name -> value.
            k: the arm's longest draft, for parameters that must fit it; None skips these checks.
        """
        ...

    def admit(self, tokens: Sequence[int]) -> object:
        """The state of a new request whose prompt and first output token are ``tokens``."""
        ...

    def output_law(
        self, rows: TargetRows, places: Tensor, draft: Tensor | None, states: States
    ) -> Tensor | None:
        """Law of the token that the rule emits at n positions, [n, V]; None where not known.

        Only for rules that judge token by token with one candidate: then the law at a position
        follows from the two rows there.

        Args:
            rows: the step's target rows.
            places: int64 [n] packed row of each position.
            draft: [n, V] draft law there; None for positions without a draft.
            states: the state of each position's request before the step.
        """
        ...

    def __call__(
        self,
        tree: TokenTree,
        trials: Trials,
        rows: TargetRows,
        laws: DraftLaws,
        states: States,
        uniforms: Uniforms,
    ) -> tuple[Acceptance, States]: ...


class Drafter(Protocol):
    """Proposes tokens for a batch. Rows are the requests, in batch order.

    Call order per request: ``admit`` once after its prefill, then per step ``propose`` and
    ``observe``, finally ``release``.
    """

    info: DrafterInfo
    taps: tuple[Tap, ...]
    vocabulary: frozenset[int] | None
    """Ids that it can draft; None = all of the target's."""

    def room(self, k: int) -> int:
        """KV rows that a step needs behind the committed ones, for drafting and verifying.

        At least ``nodes(k)``.
        """
        ...

    def nodes(self, k: int) -> int:
        """Nodes of the largest draft whose longest path is ``k``: a step verifies one row more."""
        ...

    def feeds(self, k: int) -> int:
        """Rows of one request in the widest forward after its prompt that it runs for a draft.

        Of models and heads with KV; 0 where it has none.
        """
        ...

    def admit(self, rows: Sequence[DecodedSequence], taps: Mapping[Tap, Tensor]) -> None:
        """Take in prompts; each row's first output token is already committed.

        ``taps`` hold one packed row per prompt token, in row order.
        """
        ...

    def propose(self, rows: Sequence[DecodedSequence], budget: Sequence[int]) -> Draft:
        """Draft at most ``budget[b]`` tokens on the longest path of row b."""
        ...

    def observe(
        self,
        rows: Sequence[DecodedSequence],
        draft: Draft,
        verified: Tensor,
        acceptance: Acceptance,
        taps: Mapping[Tap, Tensor],
    ) -> None:
        """Learn what was accepted, before it is committed; refill own KV from all verified rows.

        ``verified`` int64 [B, N + 1] is the row of each verified position in the taps (the root,
        then the nodes; padding repeats the root).
        """
        ...

    def release(self, rows: Sequence[DecodedSequence]) -> None:
        """Forget requests that ended."""
        ...


class Target(Protocol):
    """The target model as the loop sees it."""

    def prefill(
        self, rows: Sequence[DecodedSequence], taps: Sequence[Tap]
    ) -> tuple[TargetRows, dict[Tap, Tensor]]:
        """Run whole prompts; one target row per request (the first output token's)."""
        ...

    def verify(
        self, rows: Sequence[DecodedSequence], tree: TokenTree, taps: Sequence[Tap]
    ) -> tuple[TargetRows, dict[Tap, Tensor]]:
        """Run each request's last committed token and its nodes in one ragged forward."""
        ...

    def commit(
        self, rows: Sequence[DecodedSequence], tree: TokenTree, paths: Sequence[Sequence[int]]
    ) -> None:
        """Keep the KV of the accepted paths (node indices on the host), drop the rest."""
        ...

    def release(self, rows: Sequence[DecodedSequence]) -> None:
        """Free the KV of requests that ended."""
        ...
