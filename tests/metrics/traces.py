"""Hand-made traces: only what a test says differs from a plain, valid record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from specbench.core.request import RequestKey
from specbench.core.trace import Arrivals, Cut, Evidence, Finish, Granularity, Steps, Trace

MS = 1_000_000
SEED = 7


def trace(
    item: str = "a",
    *,
    arm: str = "mtp",
    verified: Sequence[int] = (),
    accepted: Sequence[int] = (),
    judged: Sequence[int] | None = None,
    depth: Sequence[int] = (),
    committed: Sequence[int] | None = None,
    cut: str = Cut.NONE,
    arrivals: Sequence[tuple[float, int]] | None = None,
    start_ms: float = 0,
    ids: Sequence[int] | None = None,
    overlap: Sequence[float] = (),
    granularity: Granularity = Granularity.STEP,
    finish: Finish = Finish.LENGTH,
    temperature: float = 0.0,
    turn: int = 0,
    repeat: int = 0,
    concurrency: int = 1,
    unit: str | None = None,
    order: int = 0,
    resumed: int = 0,
    error: str = "",
) -> Trace:
    """One trace; without ``arrivals`` the prefill takes 100 ms and each step 30 ms."""
    made = [a + 1 for a in accepted] if committed is None else list(committed)
    if arrivals is None:
        arrivals = [(100, 1)] + [(130 + 30 * index, n) for index, n in enumerate(made)]
    total = sum(tokens for _, tokens in arrivals)
    steps = Steps(
        tick=list(range(len(made))),
        proposed=list(verified),
        verified=list(verified),
        judged=list(verified if judged is None else judged),
        accepted=list(accepted),
        committed=made,
        cut=[Cut.NONE] * (len(made) - 1) + [cut] if made else [],
        short_draft=[""] * len(made),
        depth=list(depth),
    )
    columns: dict = {f.name: [None] * len(overlap) for f in fields(Evidence)}
    columns["position"] = list(range(1, len(overlap) + 1))
    columns["drafted"] = [1] * len(overlap)
    columns["overlap"] = list(overlap)
    evidence = Evidence(**columns)
    return Trace(
        key=RequestKey("code", item, turn, temperature, repeat),
        arm=arm,
        concurrency=concurrency,
        unit=f"item:{item}" if unit is None else unit,
        granularity=granularity,
        seed=0,
        prompt_tokens=10,
        prompt_hash="",
        start_ns=int(start_ms * MS),
        output_ids=list(range(total)) if ids is None else list(ids),
        finish=finish,
        error=error,
        steps=steps,
        arrivals=Arrivals(
            [int((start_ms + t) * MS) for t, _ in arrivals], [tokens for _, tokens in arrivals]
        ),
        evidence=evidence,
        order=order,
        resumed=resumed,
    )


def timed(item: str, seconds: float, tokens: int, *, arm: str = "mtp", **fields: object) -> Trace:
    """A trace whose decode took ``seconds`` for ``tokens`` tokens after the first one."""
    arrivals = [(100, 1), (100 + seconds * 1000, tokens)]
    # Plain takes a step per token; for another arm one is enough.
    drafts = [0] * tokens if arm == "plain" else [tokens - 1]
    return trace(
        item,
        arm=arm,
        verified=drafts,
        accepted=drafts,
        arrivals=arrivals,
        **fields,  # type: ignore[arg-type]
    )
