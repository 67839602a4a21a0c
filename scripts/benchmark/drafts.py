"""What drafts cost: one level of a draft over one plain forward of the target.

A drafter is one line of ``DRAFTS``. Heads are untrained: how fast they are does not depend on their
weights.
"""

from __future__ import annotations

import statistics

from specbench.core.arm import ArmSpec
from specbench.core.request import Request
from specbench.core.trace import TickKind
from specbench.engines.native import NativeEngine, open_engine

from .setting import MODEL, TARGET, decode, requests, say, seconds
from .trees import DRAFTING

UNTRAINED = {"model": "untrained"}
DRAFTS = [
    ArmSpec("ngram", "ngram", 5),
    ArmSpec("suffix", "suffix", 5),
    ArmSpec("layer_skip", "layer_skip", 5),
    ArmSpec("draft_model (the target)", "draft_model", 3, drafter_options={"model": MODEL}),
    ArmSpec("eagle1, chain", "eagle1", 5, drafter_options=UNTRAINED | {"tree": "chain"}),
    ArmSpec("eagle1, 25 nodes", "eagle1", 5, "multi_round", drafter_options=UNTRAINED),
    ArmSpec("eagle2, 59 nodes", "eagle2", 6, "multi_round", drafter_options=UNTRAINED),
    ArmSpec("eagle3, chain", "eagle3", 5, drafter_options=UNTRAINED | {"tree": "chain"}),
    ArmSpec("eagle3, 59 nodes", "eagle3", 6, "multi_round", drafter_options=UNTRAINED),
    ArmSpec("mtp, one token", "mtp", 1, drafter_options=UNTRAINED),
    ArmSpec("mtp, chain", "mtp", 3, drafter_options=UNTRAINED),
    ArmSpec("medusa, 63 nodes", "medusa", 4, "multi_round", drafter_options=UNTRAINED),
    ArmSpec("blockwise", "blockwise", 4, drafter_options=UNTRAINED),
]
TURNS = 3


def draft_costs(engine: NativeEngine) -> dict[str, float]:
    """c: drafting and refill of a step, per level of its draft, over a plain forward.

    Of a whole step for parallel heads, where all levels are one call. The target and all drafters
    decode the same prompts in turn; medians over steps.
    """
    say("draft costs")
    arms = [ArmSpec("plain"), *DRAFTS]
    own = open_engine(TARGET, arms)
    asked = requests(own, ("code", "chat"), 1, 24, 0.0)
    levels: dict[str, list[float]] = {arm.name: [] for arm in arms}
    for arm in arms:
        decode(own, arm.name, asked[:1])
    for _ in range(TURNS):
        for arm in arms:
            levels[arm.name] += _levels(own, arm, asked)
    own.close()
    plain = statistics.median(levels.pop("plain"))
    return {f"{arm.name}, k={arm.k}": statistics.median(levels[arm.name]) / plain for arm in DRAFTS}


def _levels(engine: NativeEngine, arm: ArmSpec, asked: list[Request]) -> list[float]:
    """Seconds of every step that drafts as deep as the arm does: of the forward, or of a level."""
    engine.drain_ticks()
    traces = decode(engine, arm.name, asked)
    ticks = {t.index: t for t in engine.drain_ticks() if t.kind is TickKind.DECODE}
    if arm.plain:
        return [seconds(tick, {"verify"}) for tick in ticks.values()]
    calls = 1 if arm.drafter in ("medusa", "blockwise") else arm.k
    return [
        seconds(ticks[tick], DRAFTING) / calls
        for trace in traces
        for tick, depth, cut in zip(
            trace.steps.tick, trace.steps.depths, trace.steps.cut, strict=True
        )
        if depth == arm.k and not cut
    ]
