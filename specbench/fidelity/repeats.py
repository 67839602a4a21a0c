"""Repeats of one arm: at temperature 0 they should agree, above it they should not.

The first gives the noise floor (case A4, ``fidelity.floor``). Where the second fails, something
takes the argmax instead of sampling, or repeats share their random numbers (cases B10, B14).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable

from specbench.core.request import GREEDY_BELOW
from specbench.core.trace import Trace
from specbench.fidelity.floor import Agreement
from specbench.fidelity.greedy import Kind, compare_traces


def self_agreement(traces: Iterable[Trace], tolerance: float = 0.0) -> Agreement:
    """How often an arm at temperature 0 agrees with itself on the same prompt.

    Outputs of one prompt are compared in disjoint pairs, ordered by repeat and then concurrency,
    so that a pair crosses concurrencies where the run has several: batch shapes are what moves
    the bits. Each output enters one comparison only; all pairs would not be independent. Turns
    whose history differs are different prompts. Failed and sampled requests have nothing to
    compare; engines without token ids are compared by text.

    Args:
        traces: of one arm, usually plain.
        tolerance: largest top-2 margin, in logits, at which a difference is a tie and counts as
            agreement; see ``greedy.compare``.
    """
    groups: defaultdict[Hashable, list[Trace]] = defaultdict(list)
    for trace in traces:
        spoken = trace.output_ids or trace.text
        if trace.ok and spoken and trace.key.temperature < GREEDY_BELOW:
            groups[_prompt(trace)].append(trace)
    agree = n = 0
    for group in groups.values():
        group.sort(key=lambda trace: (trace.key.repeat, trace.concurrency))
        for first, second in zip(group[::2], group[1::2], strict=False):
            agree += compare_traces(first, second, tolerance).kind in (Kind.IDENTICAL, Kind.TIE)
            n += 1
    return Agreement(agree, n)


def sampling_inactive(traces: Iterable[Trace], alpha: float = 1e-6) -> str | None:
    """Why repeats above temperature 0 cannot have been sampled, None where they may have been.

    Only where every repeated prompt gave the same output each time. Given an output, a sampler
    that works repeats it with its probability under the target, the product of ``log_target``
    (ALGORITHMS 6.3; tokens without it count as certain). Reported where that chance is at most
    ``alpha``; a working sampler is then accused with probability ``alpha`` at most. The entropy
    would not do: a rare long tail raises it while most outputs stay equal. Under a lossy rule the
    finding means that outputs do not vary as the target's would.

    Args:
        traces: of one arm; requests that failed or were greedy are left out.
        alpha: largest chance that counts as impossible.
    """
    groups: defaultdict[Hashable, list[Trace]] = defaultdict(list)
    for trace in traces:
        if trace.ok and trace.output_ids and trace.key.temperature >= GREEDY_BELOW:
            # The same repeat at another concurrency has the same random numbers.
            groups[_prompt(trace), trace.concurrency].append(trace)
    repeated = [group for group in groups.values() if len(group) > 1]
    if any(trace.output_ids != group[0].output_ids for group in repeated for trace in group):
        return None
    log_chance = sum((len(group) - 1) * _log_probability(group[0]) for group in repeated)
    if log_chance > math.log(alpha):
        return None
    return (
        f"sampling inactive: {sum(map(len, repeated))} outputs of {len(repeated)} prompts at "
        "temperature > 0, and no repeat differs; under the target the chance of that is "
        f"1e{log_chance / math.log(10):.0f}"
    )


def _prompt(trace: Trace) -> Hashable:
    key = trace.key
    return key.suite, key.item, key.turn, key.temperature, trace.prompt_hash


def _log_probability(trace: Trace) -> float:
    return sum(value for value in trace.evidence.log_target if value is not None)
