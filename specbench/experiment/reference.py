"""Judges a recorded run by a reference model: every output is replayed on it, token by token.

The evidence of a run comes from the rows its own engine decided by. A replay takes nothing from
the run but prompts and tokens, so it can judge an engine that gives no probabilities, another
quantisation, or kernels that are wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from specbench.core.manifest import UNKNOWN, RecordId
from specbench.core.request import Request
from specbench.core.trace import Evidence, Trace
from specbench.errors import SpecbenchError
from specbench.experiment.agreement import Agreement, agreement
from specbench.experiment.arms import LOSSY
from specbench.experiment.rebuild import Renderer, rebuild, run_prompts
from specbench.results.read import Recorded


class Reference(Renderer, Protocol):
    """What a replay asks of a reference model; ``engines.replay.Replay`` is one."""

    weight_hash: str

    @property
    def tie_tolerance(self) -> float:
        """Largest top-2 margin that rounding can flip, in logits."""
        ...

    def score(self, request: Request, output_ids: Sequence[int]) -> Evidence:
        """Evidence per output token; raises SpecbenchError where there can be none."""
        ...


@dataclass(frozen=True, slots=True)
class Replayed:
    """A run in the eyes of a reference.

    Attributes:
        traces: copies of the replayed records whose evidence is the reference's.
        reasons: why the other finished records were not replayed.
        same_weights: whether the run's target had the reference's weights, in whatever type either
            ran; None where the run's engine could not tell.
        agreement: by arm and temperature, how far the run's own evidence is from the reference's.
    """

    traces: Mapping[RecordId, Trace]
    reasons: Mapping[RecordId, str]
    same_weights: bool | None
    agreement: Mapping[tuple[str, float], Agreement]

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
    traces: dict[RecordId, Trace] = {}
    reasons: dict[RecordId, str] = {}
    for done, (record, trace) in enumerate(finished.items(), start=1):
        try:
            request = rebuild(recorded, replay, prompts, record, trace)
            traces[record] = replace(trace, evidence=replay.score(request, trace.output_ids))
        except SpecbenchError as error:
            reasons[record] = f"not replayed: {error.message}"
        on_progress(done, len(finished))
    known = manifest.identity.weight_hash
    same = None if known == UNKNOWN else known == replay.weight_hash
    return Replayed(traces, reasons, same, _agreements(recorded, traces))


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
