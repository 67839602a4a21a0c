"""Prompts, a sink and a scripted engine for tests of the measurement."""

from __future__ import annotations

from specbench.core.arm import PLAIN, ArmSpec
from specbench.core.request import Sampling
from specbench.core.suite import Prompt
from specbench.engines.scripted import ScriptedEngine
from specbench.measure.plan import plan_units
from specbench.measure.requests import Conditions
from specbench.measure.runner import Runner

ARMS = {PLAIN: ArmSpec(PLAIN), "ngram": ArmSpec("ngram", "ngram", 3)}


class Memory:
    """A sink that keeps records in lists."""

    def __init__(self):
        self.traces = []
        self.tick_units = []
        self.window_units = []
        self.starts = []

    def trace(self, trace):
        self.traces.append(trace)

    def ticks(self, arm, unit, ticks):
        self.tick_units.append((arm, unit, len(ticks)))

    def windows(self, arm, unit, windows):
        self.window_units.append((arm, unit, tuple(windows)))

    def start(self, arm, start, facts):
        self.starts.append((arm, start, dict(facts)))


def prompt(name, turns=1):
    return Prompt(
        id=name,
        category="all",
        split="test",
        turns=tuple(f"{name} turn{t}" for t in range(turns)),
        recorded=tuple(f"recorded{t}" for t in range(turns - 1)),
    )


def conditions(**changes):
    values = {"samplings": (Sampling(),), "max_new_tokens": 6, **changes}
    return Conditions(**values)


def run(prompts, settings=None, script=None, done=None, **changes):
    """Run all prompts under plain and ngram; returns engine and sink."""
    settings = settings or conditions(**changes)
    engine = ScriptedEngine(ARMS, script or {"accepted": {"ngram": [2, 0]}})
    sink = Memory()
    units = plan_units({"suite": prompts}, settings, list(ARMS))
    Runner(engine, settings, sink, done or {}).run(units)
    return engine, sink
