"""Requests for the assisted engine, its arms on the tiny target, and what every trace must hold."""

from __future__ import annotations

from dataclasses import replace

from specbench.core.arm import ArmSpec
from specbench.core.trace import ShortDraft
from specbench.metrics.identities import violations

ENGINE = "transformers_assisted"
MAX_K = 5


def arm(name, drafter="none", k=0, rule="rejection", **options):
    return ArmSpec(name, drafter, k, rule, ENGINE, options)


def broken(trace, k_max=None):
    """Identities that do not hold, with the first arrival's tokens taken for the prefill's one.

    The library's first forward is prefill and verification in one, so its tokens are no step.
    """
    assert sum(trace.steps.committed) == len(trace.output_ids) - (trace.arrivals.tokens or [0])[0]
    if not trace.arrivals.tokens:
        return violations(trace, k_max=k_max)
    ahead = trace.arrivals.tokens[0] - 1
    arrivals = replace(trace.arrivals, tokens=[1, *trace.arrivals.tokens[1:]])
    return violations(
        replace(trace, output_ids=trace.output_ids[ahead:], arrivals=arrivals), k_max=k_max
    )


def steps_of(trace):
    """(verified, judged, accepted, committed, cut, short) per step."""
    s = trace.steps
    columns = (s.verified, s.judged, s.accepted, s.committed, s.cut, s.short_draft)
    return [tuple(row) for row in zip(*columns, strict=True)]


def perfect(output, k, cap, ends=()):
    """Blocks of a draft that is always right, by the definitions: [(verified, ..., short)].

    It drafts at most ``k`` tokens and at most what is left less one, and stops behind an end; an
    accepted end ends the block without a token of the target's own.
    """
    blocks, done = [], 0
    while done < len(output):
        room = cap - done - 1
        drafted = output[done : done + min(k, room)]
        for place, token in enumerate(drafted, 1):
            if token in ends:
                drafted = drafted[:place]
        cut = bool(drafted) and drafted[-1] in ends
        committed = len(drafted) if cut else len(drafted) + 1
        short = ShortDraft.NONE
        if len(drafted) < k:
            short = ShortDraft.LIMIT if len(drafted) >= room else ShortDraft.DRAFTER_STOPPED
        n = len(drafted)
        blocks.append((n, n, n, committed, "eos" if cut else "", short))
        done += committed
    return blocks
