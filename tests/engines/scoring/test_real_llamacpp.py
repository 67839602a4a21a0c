"""The real llama.cpp server as a reference: the same numbers as a replay of the same weights."""

from __future__ import annotations

import json
import urllib.request
from dataclasses import replace

import pytest

from specbench.core.arm import ArmSpec
from specbench.core.request import Limits, Request, RequestKey, Sampling, Stops
from specbench.core.trace import Finish
from specbench.engines.replay import Replay
from specbench.engines.scoring.reference import ServerReference
from specbench.errors import SpecbenchError
from specbench.fidelity.bounded import doubts
from specbench.fidelity.columns import columns
from specbench.fidelity.support import REPLAY_TOLERANCE
from specbench.fidelity.verdict import Status, judge
from tests.fidelity.evident import decoded

pytest.importorskip("xllamacpp")
pytestmark = pytest.mark.usefixtures("one_thread")

WARM = Sampling(temperature=0.7)
NUCLEUS = Sampling(temperature=0.7, top_p=0.8)


@pytest.fixture(scope="module")
def server(tiny_target, tmp_path_factory):
    """A server of the tiny model with its weights in float32."""
    from specbench.models.gguf_write import export
    from specbench.models.locate import locate
    from tests.engines.servers.llamacpp_runs import serve

    gguf = export(locate(str(tiny_target)), tmp_path_factory.mktemp("scored") / "tiny.gguf")
    running = serve(ArmSpec("plain"), gguf)
    yield running.url
    running.stop()


@pytest.fixture(scope="module")
def replay(tiny_target):
    opened = Replay({"model": str(tiny_target)})
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def open_reference(server, tiny_target):
    def opened(top):
        settings = {"target": {"model": str(tiny_target)}}
        return ServerReference(server, "llamacpp", settings, top=top)

    return opened


def request(sampling, item=0):
    key = RequestKey("s", f"p{item:02}", 0, sampling.temperature, 0)
    prompt = (1, *((7 * item + 3 * i) % 200 + 20 for i in range(12)))
    return Request(key, prompt, sampling, Limits(24), Stops(), seed=item)


def sample(url, asked, served):
    """Output ids of one completion under other settings than were asked for, perhaps."""
    body = {
        "prompt": list(asked.token_ids),
        "n_predict": asked.limits.max_new_tokens,
        "seed": asked.seed,
        "temperature": served.temperature,
        "top_p": served.top_p,
        "top_k": 0,
        "min_p": 0.0,
        "return_tokens": True,
        "ignore_eos": False,
    }
    sent = urllib.request.Request(f"{url}/completion", json.dumps(body).encode())
    with urllib.request.urlopen(sent, timeout=60) as answer:
        return json.loads(answer.read())["tokens"]


@pytest.mark.parametrize("sampling", [WARM, NUCLEUS, Sampling(temperature=1.0, top_k=9)], ids=str)
def test_a_whole_row_gives_what_a_replay_gives(server, replay, open_reference, sampling):
    """Up to the float32 sums of either side; the order of two equal tokens is anybody's."""
    asked = request(sampling)
    ids = sample(server, asked, sampling)
    assert len(ids) > 3
    found, wanted = open_reference(1000).score(asked, ids), replay.score(asked, ids)
    for name in ("log_target", "entropy", "pit_width", "target_top", "log_untempered"):
        pairs = list(zip(getattr(found, name), getattr(wanted, name), strict=True))
        assert [a is None for a, _ in pairs] == [b is None for _, b in pairs]
        assert all(abs(a - b) < 5e-3 for a, b in pairs if a is not None), name


def test_a_short_list_is_as_far_off_as_it_says(server, open_reference):
    asked = request(WARM, 1)
    ids = sample(server, asked, WARM)
    whole, short = open_reference(1000).score(asked, ids), open_reference(40).score(asked, ids)
    for place in range(len(ids)):
        if not short.unlisted[place]:
            gap = abs(short.log_target[place] - whole.log_target[place])
            assert gap <= short.log_doubt[place] + 2e-3


def test_greedy_choices_and_margins(server, replay, open_reference):
    cold = Sampling(temperature=0.0)
    asked = request(cold, 2)
    ids = sample(server, asked, cold)
    found, wanted = open_reference(2).score(asked, ids), replay.score(asked, ids)
    assert found.target_top_hit == wanted.target_top_hit == [1] * len(ids)
    assert found.margin == pytest.approx(wanted.margin, abs=5e-3)


@pytest.mark.parametrize(
    ("served", "status"),
    [
        (WARM, Status.PASSED),
        (Sampling(temperature=0.0), Status.FAILED),
        (Sampling(temperature=2.0), Status.FAILED),
    ],
    ids=["honest", "greedy", "temperature 2"],
)
def test_what_a_real_server_does_with_temperature(server, open_reference, served, status):
    reference, traces = open_reference(60), []
    for item in range(12):
        asked = request(WARM, item)
        ids = sample(server, asked, served)
        evidence = reference.score(asked, ids)
        trace = replace(decoded(len(ids) or 2, f"p{item:02}"), evidence=evidence, output_ids=ids)
        traces.append(replace(trace, finish=Finish.LENGTH))
    tokens, bounds = columns(traces), doubts(traces)
    found = judge({"cell": tokens}, support_tolerance=REPLAY_TOLERANCE, doubts={"cell": bounds})[
        "cell"
    ]
    assert found.status is status, str(found)


def test_a_context_that_is_too_short_is_a_reason(open_reference):
    asked = replace(request(WARM), token_ids=(1, *[30] * 5000))
    with pytest.raises(SpecbenchError, match="answered 400"):
        open_reference(5).score(asked, [40])
