"""Requests for the tiny engine, and what two runs of one must have in common."""

from __future__ import annotations

from dataclasses import replace

from specbench.core.request import Limits, Request, RequestKey, Sampling, Stops
from tests.engines.conftest import OPTIONS, RULES

ARMS = ["plain", *(f"{drafter}-{rule}" for drafter in OPTIONS for rule in RULES)]
COUNT = 12


def requests(temperature=0.0, count=COUNT, prompts=9, stops=None, context=None):
    return [
        Request(
            RequestKey("tiny", f"item-{i}", 0, temperature, 0),
            tuple((7 * i + 5 * j * (i % 3)) % 200 + 3 for j in range(2 + 3 * (i % 4))),
            Sampling(temperature),
            Limits(count - i % 3, context=context),
            stops or Stops((0,)),
            seed=i,
        )
        for i in range(prompts)
    ]


def by_item(traces):
    return {trace.key.item: trace for trace in traces}


def run(engine, arm, asked, concurrency):
    traces = by_item(engine.run(arm, asked, concurrency))
    engine.drain_ticks()
    return traces


def observed(trace):
    """What must not depend on who shares the batch: everything but ticks and times."""
    steps = replace(trace.steps, tick=[])
    return trace.output_ids, trace.text, trace.finish, steps
