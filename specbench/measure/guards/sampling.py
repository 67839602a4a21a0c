"""Sampling that does not sample: equal repeats, a seed or a temperature that has no effect."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from specbench.core.request import GREEDY_BELOW, RequestKey
from specbench.core.trace import Trace
from specbench.fidelity.repeats import sampling_inactive
from specbench.measure.guards.guard import Around, Guard
from specbench.metrics.timeline import finished

FEWEST_EQUAL_REPEATS = 3
IGNORED = "ignored"
"""What a probe says of a setting that has no effect."""

_CHECK_SAMPLER = "check that temperature and seed reach the sampler"


def sampling_guards(arm: Sequence[Trace], around: Around) -> Iterator[Guard]:
    """Repeats of one prompt at temperature > 0 that never differ, and what probes found."""
    yield from _repeats(arm)
    if all(trace.key.temperature < GREEDY_BELOW for trace in arm):
        return
    certainty = str(around.probes.get("certainty") or "tried out before measuring")
    if around.probes.get("temperature") == IGNORED:
        yield Guard(
            "temperature_ignored",
            f"the server takes the most likely token at every temperature ({certainty})",
            "do not read this cell as sampling; set the temperature where the server is started",
        )
    if around.probes.get("seed") == IGNORED:
        yield Guard(
            "seed_ignored",
            f"the server's output does not depend on the seed alone ({certainty})",
            "sampled outputs cannot be repeated; compare laws (specbench fidelity), not texts",
        )


def _repeats(arm: Sequence[Trace]) -> Iterator[Guard]:
    """Something takes the argmax.

    Where the target's probabilities are recorded they say whether equal repeats are possible;
    for other engines a number of them is enough.
    """
    if any(value is not None for trace in arm for value in trace.evidence.log_target):
        reason = sampling_inactive(arm)
        if reason:
            yield Guard("sampling_inactive", reason, _CHECK_SAMPLER)
        return
    outputs: dict[RequestKey, list[tuple[int, ...] | str]] = defaultdict(list)
    for trace in finished(arm):
        key = trace.key
        if key.temperature >= GREEDY_BELOW:
            prompt = RequestKey(key.suite, key.item, key.turn, key.temperature, 0)
            outputs[prompt].append(tuple(trace.output_ids) or trace.text)
    extra = sum(len(group) - 1 for group in outputs.values())
    if extra >= FEWEST_EQUAL_REPEATS and all(len(set(group)) == 1 for group in outputs.values()):
        yield Guard(
            "sampling_inactive",
            f"sampling inactive: {extra} repeats at temperature > 0, all equal to the first",
            _CHECK_SAMPLER,
        )
