"""`specbench run` on the real llama.cpp server: started here, and attached to."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from specbench.cli.main import call
from specbench.core.arm import ArmSpec
from specbench.core.trace import Granularity
from specbench.engines.http import engine
from specbench.engines.http.probes import QUESTIONS
from specbench.engines.servers.llamacpp import LAUNCHER
from specbench.engines.servers.ports import free_port
from specbench.engines.servers.process import start
from specbench.engines.servers.protocol import ServerPlan
from specbench.models.locate import DEMO_MODEL
from specbench.results.read import find_run, read_run

pytest.importorskip("xllamacpp", reason="needs specbench-llm[serve-llamacpp]")
pytestmark = pytest.mark.model

# More threads than free cores make ggml's barriers spin.
ONE_THREAD = ["--threads", "1"]
SMALL = ["--limit=1", "--suite=translation", "--max-new-tokens=12", "--temperature=0", "--yes"]


def traces(out):
    recorded = read_run(find_run("last", out))
    return {arm: [t for t in recorded.traces.values() if t.arm == arm] for arm in ARMS}


ARMS = ("plain", "ngram", "self")


def test_started_here_and_attached_to_give_the_same(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["specbench", "run"])
    # One question to each of five servers: all of them are asked in tests/engines.
    monkeypatch.setattr(engine, "QUESTIONS", QUESTIONS[:1])
    managed, attached = tmp_path / "managed", tmp_path / "attached"
    settings = ["--set", "server.starts=1", "--set", f"server.args_extra={ONE_THREAD}"]
    assert call(["run", "llamacpp-demo", *SMALL, *settings, "--out", str(managed)]) == 0
    shown = capsys.readouterr().out
    assert "demonstration on llama.cpp" in shown
    by_arm = traces(managed)
    for arm in ARMS:
        (trace,) = by_arm[arm]
        assert trace.ok
        assert trace.granularity is Granularity.STEP
        assert sum(trace.steps.committed) == sum(trace.arrivals.tokens) - 1
    (plain,), (own,) = by_arm["plain"], by_arm["self"]
    assert sum(plain.steps.verified) == 0
    # Three of three drafts kept per step, but for rounding between batch shapes.
    assert sum(own.steps.accepted) >= 0.7 * sum(own.steps.judged)

    with ExitStack() as stack:
        urls = [stack.enter_context(served(arm)).url for arm in (PLAIN, NGRAM)]
        arguments = ["--engine", "llamacpp", "--url", urls[1], "--plain-url", urls[0]]
        arguments += ["--drafter", "ngram", "-k", "5", "--tokenizer", DEMO_MODEL]
        code = call(["run", *arguments, *SMALL, "--out", str(attached)])
    assert code == 0
    again = traces(attached)
    for arm in ("plain", "ngram"):
        assert again[arm][0].output_ids == by_arm[arm][0].output_ids
        assert again[arm][0].steps.verified == by_arm[arm][0].steps.verified
        assert again[arm][0].steps.accepted == by_arm[arm][0].steps.accepted


PLAIN = ArmSpec("plain", server={"args_extra": ONE_THREAD})
NGRAM = ArmSpec("ngram", "ngram", 5, "target_match", "llamacpp", server={"args_extra": ONE_THREAD})


def served(arm):
    return start(LAUNCHER, ServerPlan(arm, DEMO_MODEL, free_port(), dtype="as_stored"), None, 60)
