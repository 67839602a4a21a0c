"""What happened: ticks, steps, arrivals and per-token evidence. Every metric derives from it.

Times are integer nanoseconds of one monotonic clock. Columns of one record have equal length.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from specbench.core.request import RequestKey


class Granularity(StrEnum):
    """What an engine lets us see of a request."""

    STEP = "step"
    CHUNK = "chunk"
    REQUEST = "request"


class Finish(StrEnum):
    """Why a request ended. ``SKIPPED`` never reached the engine; ``OOM`` and ``ERROR`` failed."""

    EOS = "eos"
    STOP = "stop"
    LENGTH = "length"
    SKIPPED = "skipped"
    OOM = "oom"
    ERROR = "error"


class Cut(StrEnum):
    """Why a step committed fewer tokens than were accepted plus one."""

    NONE = ""
    EOS = "eos"
    STOP = "stop"
    LENGTH = "length"


class ShortDraft(StrEnum):
    """Why a step drafted fewer than K tokens."""

    NONE = ""
    NO_MATCH = "no_match"
    LIMIT = "limit"
    DRAFT_CONTEXT = "draft_context"
    DRAFTER_STOPPED = "drafter_stopped"
    OFF = "off"


class TickKind(StrEnum):
    """A tick is prefill only or decode only, never mixed."""

    PREFILL = "prefill"
    DECODE = "decode"


class Lane(StrEnum):
    """Where the time of a span was spent."""

    HOST = "host"
    DEVICE = "device"


class Span(NamedTuple):
    """A named piece of a tick, in nanoseconds; spans of different lanes may overlap."""

    phase: str
    lane: Lane
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Tick:
    """One batch iteration of the native engine.

    ``tokens`` were fed to the target; ``padded_tokens`` are those and the tokens that its forwards
    and the draft's ran for nobody. ``graph``: every forward was a replay of a captured graph.
    """

    index: int
    kind: TickKind
    rows: int
    tokens: int
    padded_tokens: int
    graph: bool
    start_ns: int
    end_ns: int
    spans: tuple[Span, ...] = ()


@dataclass(slots=True)
class Steps:
    """Columns over the decode steps of one request (METRICS: step).

    ``proposed``, ``verified`` and ``judged`` count nodes; ``depth`` counts those of the longest
    path that was judged. It is empty where all drafts of the request are chains, for which it
    would be ``judged`` again.
    """

    tick: list[int] = field(default_factory=list)
    proposed: list[int] = field(default_factory=list)
    verified: list[int] = field(default_factory=list)
    judged: list[int] = field(default_factory=list)
    accepted: list[int] = field(default_factory=list)
    committed: list[int] = field(default_factory=list)
    cut: list[str] = field(default_factory=list)
    short_draft: list[str] = field(default_factory=list)
    depth: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.tick)

    @property
    def depths(self) -> list[int]:
        """Judged nodes on the longest path of every step."""
        return self.depth or self.judged


@dataclass(slots=True)
class Arrivals:
    """Columns over the moments at which tokens became known to the caller."""

    t_ns: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.t_ns)


LENIENCE = 0.5
"""Lenience of the law that evidence holds against the target, to find lenient acceptance."""


@dataclass(slots=True)
class Evidence:
    """Columns over the emitted tokens; constant size per token (ALGORITHMS 6.3).

    Logarithms are natural; probabilities follow the request's sampling settings. ``position``
    counts from 0 at the first output token. ``draft_*`` columns and the PIT order use the law the
    draft token was really drawn from; at a position without a draft (``drafted`` 0) they are None
    and the PIT runs in target order.

    Attributes:
        log_target: log target probability of the emitted token.
        log_draft: log draft probability of the emitted token.
        entropy, entropy_variance: mean and variance of the surprisal under the target.
        sum_squares: sum of squared target probabilities.
        pit_low, pit_width: the emitted token's interval in the cumulative target law.
        overlap: sum of min(target, draft), the chance of acceptance under ``rejection``.
        overlap_lenient: sum of min(target / ``LENIENCE``, draft), acceptance under that lenience.
        draft_top_target: target probability of the draft's first choice.
        draft_top_hit: 1 where the emitted token is the draft's first choice.
        target_top: largest target probability.
        target_top_hit: 1 where the emitted token is the target's first choice.
        log_untempered: log probability of the emitted token at temperature 1 without truncation;
            None where the request's settings are just that.
        support_margin: only for an emitted token of target probability 0: how far it lies beyond
            the border of the truncation, in nats; at most 0.
        rule_tv, rule_kl: total variation and KL divergence (nats, rule against target) between the
            rule's output law at this position and the target; only under lossy rules that know
            their law.
        rule_entropy: entropy of the rule's output law, nats.
        margin: top-1 minus top-2 logit of the target row (greedy ties are judged by it).
        runner_up: token id of the target's second choice.
    """

    position: list[int] = field(default_factory=list)
    drafted: list[int] = field(default_factory=list)
    log_target: list[float | None] = field(default_factory=list)
    log_draft: list[float | None] = field(default_factory=list)
    entropy: list[float | None] = field(default_factory=list)
    entropy_variance: list[float | None] = field(default_factory=list)
    sum_squares: list[float | None] = field(default_factory=list)
    pit_low: list[float | None] = field(default_factory=list)
    pit_width: list[float | None] = field(default_factory=list)
    overlap: list[float | None] = field(default_factory=list)
    overlap_lenient: list[float | None] = field(default_factory=list)
    draft_top_target: list[float | None] = field(default_factory=list)
    draft_top_hit: list[int | None] = field(default_factory=list)
    target_top: list[float | None] = field(default_factory=list)
    target_top_hit: list[int | None] = field(default_factory=list)
    log_untempered: list[float | None] = field(default_factory=list)
    support_margin: list[float | None] = field(default_factory=list)
    rule_tv: list[float | None] = field(default_factory=list)
    rule_kl: list[float | None] = field(default_factory=list)
    rule_entropy: list[float | None] = field(default_factory=list)
    margin: list[float | None] = field(default_factory=list)
    runner_up: list[int | None] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.position)


class Counted(StrEnum):
    """How the tokens of an output were counted, best first (case D5)."""

    IDS = "ids"
    CHUNK_USAGE = "chunk_usage"
    USAGE = "usage"
    ESTIMATED = "estimated"


@dataclass(slots=True)
class Tally:
    """Totals of speculation from an engine that shows no steps; None = it does not say.

    Attributes:
        source: where the numbers come from, e.g. "sglang meta_info".
        steps: decode steps, with or without a draft; the token of the prefill has none.
        drafted_steps: steps that verified a draft.
        verified: draft tokens sent to the target.
        accepted: draft tokens that were accepted; engines may count some behind a stop.
        committed: tokens that the steps gave to the request.
        accepted_at: how many steps accepted at least 1, 2, ... draft tokens; empty if unknown.
        note: what is weak about these numbers, for the reader.
    """

    source: str
    steps: int | None = None
    drafted_steps: int | None = None
    verified: int | None = None
    accepted: int | None = None
    committed: int | None = None
    accepted_at: list[int] = field(default_factory=list)
    note: str = ""


@dataclass(frozen=True, slots=True)
class Window:
    """What the counters of an engine showed over one stretch of measured requests.

    Attributes:
        sent: requests that were sent within it.
        tally: what was counted; None where it cannot be used.
        reason: why there is no tally; empty where there is one.
    """

    sent: int
    tally: Tally | None
    reason: str = ""


@dataclass(slots=True)
class Trace:
    """Everything observed about one request under one arm.

    ``start_ns`` is the moment the request was handed to the engine; the first arrival is the token
    that the prefill produced. ``history`` says which assistant turns the prompt contains.
    """

    key: RequestKey
    arm: str
    concurrency: int
    unit: str
    granularity: Granularity
    seed: int
    prompt_tokens: int
    prompt_hash: str
    start_ns: int
    output_ids: list[int] = field(default_factory=list)
    text: str = ""
    finish: Finish = Finish.LENGTH
    error: str = ""
    steps: Steps = field(default_factory=Steps)
    arrivals: Arrivals = field(default_factory=Arrivals)
    evidence: Evidence = field(default_factory=Evidence)
    category: str = ""
    split: str = ""
    order: int = 0
    """Position of this arm in its interleaving unit, 0 = ran first."""
    resumed: int = 0
    """How many times the run had been resumed when this was recorded."""
    start: int = 0
    """Which start of the arm's server decoded this, counted from 0; 0 where there is no server."""
    tally: Tally | None = None
    """Totals of this request's speculation where no steps can be seen."""
    counted: Counted = Counted.IDS
    hidden_end: int = 0
    """1 where the engine counted an end token whose id it did not show."""
    first_visible_ns: int | None = None
    """Arrival of the first visible token where reasoning came before it or could have."""
    cached_tokens: int | None = None
    """Prompt tokens that came from a prefix cache; None where the engine does not say."""
    outside_draft: int | None = None
    """Output tokens that the draft's own vocabulary does not have; None where it has all."""
    attempts: int = 1
    """How often the request was sent until it was answered."""
    sent_ns: int | None = None
    """When it was really sent, where ``start_ns`` is the moment it was due (open loop)."""
    effective: Mapping[str, object] = field(default_factory=dict)
    """Sampling settings that the engine said it used, where they differ from those requested."""

    @property
    def ok(self) -> bool:
        """Whether the request ended by itself (and so may enter averages)."""
        return self.finish in (Finish.EOS, Finish.STOP, Finish.LENGTH)
