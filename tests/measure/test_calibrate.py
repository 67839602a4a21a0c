"""Warm-up is outside everything that is measured, and meets the measured shapes (case D9)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specbench.core.request import Sampling
from specbench.core.warm_up import is_warm_up
from specbench.engines.scripted import ScriptedEngine
from specbench.errors import SpecbenchError
from specbench.measure.calibrate import calibrate, warm_start, warmup_requests
from specbench.measure.clock import ManualClock
from tests.measure.fakes import ARMS, conditions, prompt


def test_warm_up_covers_temperatures_arms_and_concurrencies_and_leaves_nothing(monkeypatch):
    settings = conditions(samplings=(Sampling(0.0), Sampling(0.7)), concurrency=(1, 4))
    engine = ScriptedEngine(ARMS)
    seen = []
    monkeypatch.setattr(
        ScriptedEngine,
        "warm_up",
        lambda self, arm, requests, concurrency: seen.append((arm, concurrency, len(requests))),
    )
    requests = warmup_requests(engine, settings, {"suite": [prompt("a"), prompt("b c d e")]})
    assert {request.sampling.temperature for request in requests} == {0.0, 0.7}
    assert {request.key.suite for request in requests} == {"warm-up/suite"}
    assert len({len(request.token_ids) for request in requests}) == 2
    calibrate(engine, settings, list(ARMS), requests, ManualClock())
    assert seen == [
        *(("plain", 1, 1), ("plain", 1, 4), ("ngram", 1, 1), ("ngram", 1, 4)),
        *(("plain", 4, 4), ("ngram", 4, 4)),
    ]
    assert engine.drain_ticks() == []


def test_all_that_is_sent_says_that_it_is_not_measured():
    """Also the pass that is timed: an engine must know what its drafters are to forget."""
    sent = []

    class Noting(ScriptedEngine):
        def warm_up(self, arm, requests, concurrency):
            sent.append(("warm-up", requests))

        def run(self, arm, requests, concurrency):
            sent.append(("timed", requests))
            return super().run(arm, requests, concurrency)

    engine = Noting(ARMS)
    requests = warmup_requests(engine, conditions(), {"suite": [prompt("a")]})
    calibrate(engine, conditions(), list(ARMS), requests, ManualClock())
    assert {kind for kind, _ in sent} == {"warm-up", "timed"}
    assert all(is_warm_up(request.key) for _, several in sent for request in several)
    assert not is_warm_up(replace(requests[0].key, suite="suite"))


def test_first_request_and_speed_are_kept_apart():
    clock = ManualClock()

    class Slow(ScriptedEngine):
        def warm_up(self, arm, requests, concurrency):
            clock.advance(1_537_000_000 * len(requests))

        def run(self, arm, requests, concurrency):
            for trace in ScriptedEngine.run(self, arm, requests, concurrency):
                clock.advance(58_000_000 * len(trace.output_ids))
                yield trace

    engine = Slow(ARMS)
    requests = warmup_requests(engine, conditions(), {"suite": [prompt("a")]})
    found = calibrate(engine, conditions(), ["plain"], requests, clock)
    assert found.first_request_ms == {"plain": 1537.0}
    assert found.speed.seconds_per_token("plain", 1) == pytest.approx(0.058)


class Breaks(ScriptedEngine):
    """Warm-up of some arms fails; each call is noted."""

    broken: tuple[str, ...] = ("ngram",)
    seen: list

    def warm_up(self, arm, requests, concurrency):
        self.seen.append((arm, len(requests), concurrency))
        if arm in self.broken:
            raise SpecbenchError(f"{arm} died")


def breaks(*broken):
    engine = Breaks(ARMS)
    engine.broken, engine.seen = broken, []
    return engine, warmup_requests(engine, conditions(), {"suite": [prompt("a"), prompt("b c")]})


def test_a_dead_server_ends_its_arm_where_that_is_asked_for():
    engine, requests = breaks("ngram")
    with pytest.raises(SpecbenchError, match="ngram died"):
        calibrate(engine, conditions(), list(ARMS), requests, ManualClock())
    found = calibrate(engine, conditions(), list(ARMS), requests, ManualClock(), spare=True)
    assert found.failed == {"ngram": "ngram died"}
    assert {arm for arm, _ in found.speed.measured} == {"plain"}
    engine, requests = breaks("plain", "ngram")
    with pytest.raises(SpecbenchError, match="plain died"):
        calibrate(engine, conditions(), list(ARMS), requests, ManualClock(), spare=True)


def test_a_started_server_is_warmed_up_at_every_concurrency_and_not_timed():
    engine, requests = breaks()
    settings = conditions(concurrency=(1, 4), warmup=2)
    found = warm_start(engine, settings, "ngram", requests, ManualClock())
    assert found == {"first_request_ms": 0.0}
    assert engine.seen == [("ngram", 1, 1), *[("ngram", 2, 1)] * 2, *[("ngram", 4, 4)] * 2]
    assert engine.calls == []
