"""A manifest and traces to write, read and compare."""

from __future__ import annotations

from dataclasses import replace

from specbench.core.arm import PLAIN
from specbench.core.manifest import ArmFactors, Identity, Manifest, SuiteUse
from specbench.core.request import RequestKey
from specbench.core.trace import (
    Arrivals,
    Evidence,
    Finish,
    Granularity,
    Lane,
    Span,
    Steps,
    Tick,
    TickKind,
    Trace,
)

SAMPLING = {
    "temperature": 0.0,
    "top_k": 0.0,
    "top_p": 1.0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "frequency_penalty": 0.0,
    "presence_penalty": 0.0,
}

IDENTITY = Identity(
    suites={"suite": {"version": "1", "digest": "sha256:1", "split": "test"}},
    target="model",
    target_revision="1",
    weight_hash="w",
    dtype="float32",
    device="cpu",
    sampling=(SAMPLING,),
    max_new_tokens=8,
    stop=(),
    concurrency=(1,),
    arrival="closed loop",
    template_hash="t",
    thinking="off",
    prefix_cache="off",
    history="plain",
    system_policy="merge-into-user",
)

MANIFEST = Manifest(
    run="run-1",
    title="title",
    created="2026-01-01T00:00:00+00:00",
    identity=IDENTITY,
    arms=(
        ArmFactors(PLAIN, "none", 0, "none", "scripted", lossless="proven"),
        ArmFactors("ngram", "ngram", 3, "rejection", "scripted", lossless="proven"),
    ),
    suites=(SuiteUse("suite", "1", "sha256:1", "test", 2, 2, "x"),),
    experiment={"name": "test"},
    planned=4,
    seed=1,
    environment={"libraries": {"torch": "1"}},
)


def key(item="a", **changes):
    return replace(RequestKey("suite", item, 0, 0.0, 0), **changes)


def steps(arm):
    """Two steps of one token each: with three drafts, or of plain decoding."""
    if arm == PLAIN:
        return Steps([0, 1], *[[0, 0]] * 4, [1, 1], ["", ""], ["", ""])
    return Steps([0, 1], [3, 3], [3, 3], [3, 1], [0, 1], [1, 1], ["", "length"], ["", ""])


def trace(item="a", arm=PLAIN, start=1_000, **changes):
    values = {
        "key": key(item),
        "arm": arm,
        "concurrency": 1,
        "unit": f"unit-{item}",
        "granularity": Granularity.STEP,
        "seed": 7,
        "prompt_tokens": 5,
        "prompt_hash": "p",
        "start_ns": start,
        "output_ids": [3, 4, 5],
        "text": "drei vier fünf",
        "finish": Finish.LENGTH,
        "steps": steps(arm),
        "arrivals": Arrivals([start + 10, start + 30], [1, 2]),
        "evidence": Evidence(
            **{
                **{name: [None] for name in Evidence.__dataclass_fields__},
                "position": [1],
                "drafted": [1],
                "margin": [0.1 + 0.2],
            }
        ),
        **changes,
    }
    return Trace(**values)


def tick(index=0, start=1_000):
    span = Span("verify", Lane.DEVICE, start, start + 5)
    return Tick(index, TickKind.DECODE, 1, 4, 4, False, start, start + 10, (span, span))
