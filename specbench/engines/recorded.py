"""A recorded request as a sequence that is moved along its output instead of being decoded."""

from __future__ import annotations

from specbench.core.request import Limits, Request, Stops
from specbench.core.trace import Granularity, Trace
from specbench.decoding.sequence import Sequence as DecodedSequence
from specbench.decoding.stops import StopChecker


def recorded_sequence(request: Request, cap: int, slab: int) -> DecodedSequence:
    """The sequence before its prefill; where it ends is recorded, so that no stop is looked for.

    Args:
        request: prompt, sampling and minimum length.
        cap: output tokens at most.
        slab: where its KV lies.
    """
    prompt = len(request.token_ids)
    trace = Trace(
        key=request.key,
        arm="",
        concurrency=1,
        unit="",
        granularity=Granularity.REQUEST,
        seed=request.seed,
        prompt_tokens=prompt,
        prompt_hash="",
        start_ns=0,
    )
    return DecodedSequence(request, slab, trace, StopChecker(Stops(), Limits(cap), prompt, None))
