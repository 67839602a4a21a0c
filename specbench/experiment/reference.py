"""Judges a recorded run by a reference: every output is replayed on it, token by token.

The evidence of a run comes from the rows its own engine decided by. A replay takes nothing from
the run but prompts and tokens, so it can judge an engine that gives no probabilities, another
quantisation, or kernels that are wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from specbench.core.manifest import UNKNOWN, RecordId
from specbench.core.request import Request
from specbench.core.suite import Prompt
from specbench.core.trace import Evidence, Trace
from specbench.errors import SpecbenchError
from specbench.experiment.agreement import Agreement, agreement
from specbench.experiment.arms import LOSSY
from specbench.experiment.emitted import Emitted, Tokens, emitted
from specbench.experiment.rebuild import (
    PromptDiffers,
    Renderer,
    by_server,
    by_server_count,
    rebuild,
    run_prompts,
)
from specbench.results.read import Recorded

AS_STORED = "as_stored"
"""Dtype of an engine that computes on quantised weights."""

PROMPT_DIFFERS = "not replayed: the prompt has another number of tokens for the reference"


class Reference(Renderer, Tokens, Protocol):
    """What a replay asks of a reference: ``engines.replay.Replay`` is one, and a plain server."""

    weight_hash: str

    @property
    def tie_tolerance(self) -> float:
        """Largest top-2 margin that rounding can flip, in logits."""
        ...

    def score(
        self, request: Request, output_ids: Sequence[int], ends: Sequence[int] = ()
    ) -> Evidence:
        """Evidence per output token; raises SpecbenchError where there can be none.

        Args:
            ends: ids of which one followed the output unseen; the likeliest is one more position.
        """
        ...


@dataclass(frozen=True, slots=True)
class PromptLength:
    """Tokens of one prompt: as the server counted them, and as they are for the reference."""

    server: int
    reference: int


@dataclass(frozen=True, slots=True)
class Replayed:
    """A run in the eyes of a reference.

    Attributes:
        traces: copies of the replayed records whose evidence is the reference's.
        reasons: why the other finished records were not replayed.
        same_weights: whether the run's target had the reference's weights, in whatever type either
            ran; None where the run's engine could not tell, or computed on quantised weights.
        agreement: by arm and temperature, how far the run's own evidence is from the reference's.
        prompts: tokens of prompts where a server counted them, replayed or not.
        emitted: where the tokens of the replayed records came from.
    """

    traces: Mapping[RecordId, Trace]
    reasons: Mapping[RecordId, str]
    same_weights: bool | None
    agreement: Mapping[tuple[str, float], Agreement]
    prompts: Mapping[RecordId, PromptLength] = field(default_factory=dict)
    emitted: Mapping[RecordId, Emitted] = field(default_factory=dict)

    def counts(self) -> Mapping[str, int]:
        """How many records were not replayed, by reason."""
        return Counter(self.reasons.values())


def replay_run(
    recorded: Recorded,
    replay: Reference,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Replayed:
    """Replay every finished record of a run: all arms, all temperatures.

    A record that cannot be replayed is left out with its reason; failed and skipped records of the
    run are left out without one. ``on_progress`` hears how many records are done, and of how many.

    Raises:
        UsageError: a suite is not there, or not the one the run used.
    """
    manifest = recorded.manifest
    prompts = run_prompts(manifest)
    finished = {record: trace for record, trace in recorded.traces.items() if trace.ok}
    found = _Found()
    for done, (record, trace) in enumerate(finished.items(), start=1):
        try:
            _replay(found, recorded, replay, prompts, record, trace)
        except PromptDiffers as error:
            found.prompts[record] = PromptLength(error.server, error.reference)
            found.reasons[record] = PROMPT_DIFFERS
        except SpecbenchError as error:
            found.reasons[record] = f"not replayed: {error.message}"
        on_progress(done, len(finished))
    known = manifest.identity.weight_hash
    # Kernels for weights as stored round activations too: the same weights, other numbers.
    unknown = UNKNOWN in (known, replay.weight_hash) or manifest.identity.dtype == AS_STORED
    same = None if unknown else known == replay.weight_hash
    return Replayed(
        found.traces,
        found.reasons,
        same,
        _agreements(recorded, found.traces),
        found.prompts,
        found.emitted,
    )


@dataclass(slots=True)
class _Found:
    traces: dict[RecordId, Trace] = field(default_factory=dict)
    reasons: dict[RecordId, str] = field(default_factory=dict)
    prompts: dict[RecordId, PromptLength] = field(default_factory=dict)
    emitted: dict[RecordId, Emitted] = field(default_factory=dict)


def _replay(
    found: _Found,
    recorded: Recorded,
    replay: Reference,
    prompts: Mapping[tuple[str, str], Prompt],
    record: RecordId,
    trace: Trace,
) -> None:
    request = rebuild(recorded, replay, prompts, record, trace)
    counted = trace.effective.get("prompt_tokens")
    if by_server(recorded.manifest):
        counted = by_server_count(trace) or None
    if isinstance(counted, int):
        found.prompts[record] = PromptLength(counted, len(request.token_ids))
    output = emitted(trace, replay)
    evidence = replay.score(request, output.ids, output.ends)
    ids = [*output.ids, *_end(evidence, output.ends)]
    found.traces[record] = replace(trace, evidence=evidence, output_ids=ids)
    found.emitted[record] = output


def _end(evidence: Evidence, ends: Sequence[int]) -> Sequence[int]:
    """An id for the end that was not shown; which of several it was matters to ties alone."""
    if not ends:
        return ()
    second = evidence.runner_up[-1]
    missed = not evidence.target_top_hit[-1]
    return [second] if missed and second is not None and second in ends else ends[:1]


def _agreements(
    recorded: Recorded, replayed: Mapping[RecordId, Trace]
) -> dict[tuple[str, float], Agreement]:
    cells: dict[tuple[str, float], list[tuple[Evidence, Evidence]]] = {}
    for record, trace in replayed.items():
        own = recorded.traces[record].evidence
        if len(own):
            cells.setdefault((record.arm, record.key.temperature), []).append((own, trace.evidence))
    return {
        (arm, temperature): agreement(
            pairs, from_target=recorded.manifest.arm(arm).lossless not in LOSSY
        )
        for (arm, temperature), pairs in cells.items()
    }
