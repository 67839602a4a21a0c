"""Records of a run that drafts are scored on: which ones, and as what they were asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from specbench.catalog import nearest
from specbench.core.manifest import RecordId
from specbench.core.request import Limits
from specbench.core.suite import Prompt
from specbench.core.trace import Trace
from specbench.engines.drafts.flight import Recording
from specbench.engines.drafts.replay import DraftReplay
from specbench.errors import SpecbenchError, UsageError
from specbench.experiment.arms import LOSSY
from specbench.experiment.emitted import emitted
from specbench.experiment.rebuild import rebuild
from specbench.experiment.schema import check
from specbench.results.read import Recorded


@dataclass(slots=True)
class Recordings:
    """What can be replayed.

    Attributes:
        found: recordings by record.
        reasons: why the other records cannot.
        retokenised: records whose tokens come from their text.
    """

    found: dict[RecordId, Recording] = field(default_factory=dict)
    reasons: dict[RecordId, str] = field(default_factory=dict)
    retokenised: int = 0


def chosen(
    recorded: Recorded,
    arm: str,
    temperatures: Sequence[float] = (),
    limit: int | None = None,
) -> dict[RecordId, Trace]:
    """The finished records of an arm, at the run's lowest concurrency.

    Args:
        temperatures: of these alone; empty = all.
        limit: items per suite, the first ones.

    Raises:
        UsageError: no such arm, one whose tokens are not the target's, or no such temperature.
    """
    factors = {factors.name: factors for factors in recorded.manifest.arms}
    if arm not in factors:
        raise UsageError(
            f"run {recorded.manifest.run} has no arm {arm!r}",
            f"name one with --arm: {nearest(arm, list(factors))}",
        )
    if factors[arm].lossless in LOSSY:
        raise UsageError(
            f"arm {arm} has rule {factors[arm].rule} ({factors[arm].lossless}): its tokens are not "
            "the target's, and no draft can be scored on them",
            "name a lossless arm with --arm, e.g. --arm plain",
        )
    known = {float(settings["temperature"]) for settings in recorded.manifest.identity.sampling}
    if missing := [value for value in temperatures if value not in known]:
        raise UsageError(
            f"run {recorded.manifest.run} has no temperature {missing[0]:g}",
            f"it has {', '.join(f'{value:g}' for value in sorted(known))}",
        )
    lowest = min(recorded.manifest.identity.concurrency)
    items: dict[str, dict[str, None]] = {}
    found = {}
    for record, trace in recorded.traces.items():
        wanted = record.arm == arm and record.concurrency == lowest and trace.ok
        if not wanted or (temperatures and record.key.temperature not in temperatures):
            continue
        seen = items.setdefault(record.key.suite, {})
        if limit is None or record.key.item in seen or len(seen) < limit:
            seen[record.key.item] = None
            found[record] = trace
    return found


def recordings(
    recorded: Recorded,
    records: Mapping[RecordId, Trace],
    replay: DraftReplay,
    prompts: Mapping[tuple[str, str], Prompt],
) -> Recordings:
    """Records as requests and token ids for a target.

    An end that the engine did not show is one more token; which of the target's ends it was is not
    known, and the first stands for it.
    """
    experiment = check(recorded.manifest.experiment, f"experiment of run {recorded.manifest.run}")
    limits = [experiment.target.context, replay.context_limit]
    context = min(limit for limit in limits if limit is not None)
    made = Recordings()
    for record, trace in records.items():
        try:
            request = rebuild(recorded, replay, prompts, record, trace)
            output = emitted(trace, replay)
        except SpecbenchError as error:
            made.reasons[record] = error.message
            continue
        room = Limits(request.limits.max_new_tokens, request.limits.min_new_tokens, context)
        one = Recording(replace(request, limits=room), (*output.ids, *output.ends[:1]))
        if reason := replay.refusal(one):
            made.reasons[record] = reason
            continue
        made.found[record] = one
        made.retokenised += output.retokenised
    return made
