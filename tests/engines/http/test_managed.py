"""Servers that are started here: begun, lost, begun again, gone."""

from __future__ import annotations

from contextlib import contextmanager

import psutil
import pytest

from specbench.core.arm import ArmSpec
from specbench.core.trace import Finish
from specbench.engines.http import places
from specbench.engines.http.dialects.openai import DIALECT
from specbench.engines.http.engine import HttpEngine
from specbench.errors import SpecbenchError, UsageError
from tests.engines.http.attached import request
from tests.engines.http.managed import TinyLauncher

PLAIN = ArmSpec("plain", engine="tiny")
BROKEN = ArmSpec("draft", "broken", 3, engine="tiny")


@contextmanager
def managed(*arms, **options):
    settings = {
        "model": "nowhere",
        "device": "cuda:0",
        "server": {"ready_timeout_s": 30.0, "probes": False, **options},
    }
    engine = HttpEngine(settings, arms, DIALECT, TinyLauncher())
    try:
        yield engine
    finally:
        engine.close()


def children():
    return psutil.Process().children(recursive=True)


def test_a_server_is_started_for_its_arm_and_stopped_again():
    with managed(PLAIN) as engine:
        facts = engine.begin(["plain"], 0)
        assert facts["plain"]["version"] == "1.2.3"
        assert facts["plain"]["seconds_to_ready"] >= 0
        [trace] = engine.run("plain", [request(said="hello")], 1)
        assert (trace.text, trace.finish, trace.error) == ("hello", Finish.EOS, "")
        described = engine.describe()
        assert described["servers"]["plain"]["version"] == "1.2.3"
        assert described["servers"]["plain"]["model"] == "tiny"
        assert engine.device == "cuda:0"
        engine.end()
        assert not children()
        [trace] = engine.run("plain", [request()], 1)
        assert "not started" in trace.error


def test_a_server_that_dies_ends_its_arm_and_says_what_it_printed():
    with managed(PLAIN) as engine:
        engine.begin(["plain"], 0)
        traces = list(
            engine.run("plain", [request(i, "die" if i == 1 else "a") for i in range(4)], 1)
        )
        assert [trace.ok for trace in traces] == [True, False, False, False]
        assert all("exit code 3" in trace.error for trace in traces[1:])
        assert all("out of luck" in trace.error for trace in traces[1:])
        engine.begin(["plain"], 1)
        [trace] = engine.run("plain", [request()], 1)
        assert trace.ok


def test_a_server_that_hangs_ends_its_arm(monkeypatch):
    monkeypatch.setattr(places, "PROBE_S", 0.3)
    with managed(PLAIN, idle_timeout_s=0.3) as engine:
        engine.begin(["plain"], 0)
        traces = list(engine.run("plain", [request(i, "hang") for i in range(3)], 1))
        assert "no bytes for 0.3 s" in traces[0].error
        assert all("hangs" in trace.error for trace in traces)


def test_a_server_that_cannot_start_ends_its_arm_alone():
    with managed(PLAIN, BROKEN) as engine:
        facts = engine.begin(["plain", "draft"], 0)
        assert "no such draft" in facts["draft"]["failed"]
        assert "failed" not in facts["plain"]
        [trace] = engine.run("draft", [request()], 1)
        assert "no such draft" in trace.error
        with pytest.raises(SpecbenchError, match="no such draft"):
            engine.warm_up("draft", [request()], 1)
        [trace] = engine.run("plain", [request()], 1)
        assert trace.ok


def test_arms_are_checked_before_anything_starts():
    with pytest.raises(UsageError, match="no drafter 'medusa'"), managed(ArmSpec("m", "medusa", 2)):
        pass
    with pytest.raises(UsageError, match="no address"):
        HttpEngine({"server": {}}, [PLAIN], DIALECT, None)
