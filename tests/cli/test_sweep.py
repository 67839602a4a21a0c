"""`specbench sweep` end to end on the scripted engine, where the best K follows from a sum by hand.

24 tokens behind the first. The longest draft accepts 2, 1 and 0 tokens in turn, a draft of 1 token
1, 1 and 0. A step takes 10 ms without drafts; with K it takes what ``COST`` says:

    load 1   K = 1: 14 steps of 12 ms = 168    K = 2: 12 of 13 = 156    K = 4: 12 of 15 = 180
             plain: 24 of 10 = 240             K = 8: 12 of 19 = 228
    load 2   a step with a draft takes 30 ms: plain is the fastest
"""

from __future__ import annotations

import csv
import io
import json
import re

import pytest

from specbench.cli import sweep_call
from specbench.cli.main import call
from specbench.engines import scripted
from specbench.engines.scripted import ScriptedEngine
from specbench.report.page.files import write_charts
from specbench.results.leaderboard.entries import Entry, entries
from specbench.suites.split import split_of
from tests.cli.scripted_runs import Bench

ARM = """
[arm.early]
drafter = "layer_skip"
k = 8
options = { layers = 3 }
"""
KS = (1, 2, 4, 8)
COST = {1: {k: 11 + k for k in KS}, 2: {k: 30 + k for k in KS}}
LOADS = "1,2"


@pytest.fixture(scope="module")
def patch():
    with pytest.MonkeyPatch.context() as found:
        # A run of the machine is not what is tested here.
        found.setattr("specbench.results.writer.os.fsync", lambda handle: None)
        # One test draws.
        found.setattr(sweep_call, "write_charts", lambda charts, folder: [])
        yield found


@pytest.fixture(scope="module")
def bench(tmp_path_factory, patch):
    found = Bench(tmp_path_factory.mktemp("bench"), patch)
    opened = scripted.open_engine

    def by_load(target, arms):
        cost = COST[target["concurrency"]]
        options = {
            "accepted": {f"early-k{k}": [min(k, 2), 1, 0] for k in KS},
            "step_ms": {f"early-k{k}": cost[k] for k in KS},
        }
        return opened({**target, "options": options}, arms)

    patch.setattr(scripted, "open_engine", by_load)
    path = found.write(items=40, arms=ARM)
    path.write_text(path.read_text().replace("max_new_tokens = 8", "max_new_tokens = 25"))
    return found


def sweep(bench, *arguments, experiment=True):
    source = [str(bench.folder / "experiment.toml")] if experiment else []
    return call(["sweep", *source, *map(str, arguments), "--out", str(bench.out), "--yes"])


def document(bench, name):
    return json.loads((bench.out / "sweeps" / name / "sweep.json").read_text())


@pytest.fixture(scope="module")
def swept(bench):
    """A sweep over both loads."""
    assert sweep(bench, "--load", LOADS, "--limit", 6, "--name", "whole") == 0
    return bench.out / "sweeps" / "whole"


def test_the_best_k_of_each_load_is_that_of_the_sum(bench, swept):
    found = document(bench, "whole")
    answers = {one["load"]: (one["name"], one["k"], one["pays"]) for one in found["recommended"]}
    assert answers == {1: ("early-k2", 2, True), 2: ("plain", 0, False)}
    assert found["stops"] == 2
    assert found["complete"]
    speed = {one["load"]: one["figures"]["speedup"] for one in found["confirmed"]}
    assert speed[1]["value"] == pytest.approx(240 / 156)
    # At load 2 the makespan counts, with a prefill of 20 ms.
    assert speed[2]["value"] == pytest.approx((20 + 240) / (20 + 12 * 32))


def test_predictions_choose_what_is_measured(bench, swept):
    one = [s for s in document(bench, "whole")["standings"] if s["load"] == 1]
    by_name = {s["name"]: s for s in one}
    # E of the longest at K = 2 and above is 2; the cost of a step lies on a line in K.
    predicted = {name: s["figures"].get("predicted") for name, s in by_name.items()}
    assert predicted["early-k2"]["value"] == pytest.approx(2 / 1.3)
    assert predicted["early-k4"]["value"] == pytest.approx(2 / 1.5)
    assert predicted["early-k8"] is None  # it was measured: 240 / 228
    assert by_name["early-k8"]["state"] == "not measured: predicted 1.05x plain, the best 1.54x"
    assert by_name["early-k8"]["step"] == "scout"
    assert by_name["early-k4"]["figures"]["speedup"]["value"] == pytest.approx(240 / 180)


def test_every_step_is_a_run_that_can_be_shown_and_says_how_k_was_chosen(bench, swept, capsys):
    steps = document(bench, "whole")["steps"]
    assert [(s["load"], s["kind"], s["split"]) for s in steps] == [
        (load, kind, "test" if kind == "confirm" else "dev")
        for load in (1, 2)
        for kind in ("scout", "rung", "confirm")
    ]
    last = swept / steps[2]["run"]
    assert call(["show", str(last)]) == 0
    assert "load 1, confirmation" in capsys.readouterr().out
    manifests = [json.loads((swept / s["run"] / "manifest.json").read_text()) for s in steps]
    assert [m["choice"]["choosing"] for m in manifests] == [True, True, False] * 2
    assert manifests[2]["choice"]["text"] == "on the dev split, by sweep whole"
    dev, test = manifests[1]["suites"][0], manifests[2]["suites"][0]
    assert (dev["split"], test["split"]) == ("dev", "test")


def test_only_confirmations_are_ranked(bench, swept):
    found = [one for one in entries(swept) if isinstance(one, Entry)]
    chosen = {one.run.path.parent.name: one for one in found}
    assert any("still being chosen" in why for why in chosen["rung-1"].reasons)
    assert any("still being chosen" in why for why in chosen["scout"].reasons)
    assert not chosen["confirm"].reasons
    assert chosen["confirm"].chosen == "on the dev split, by sweep whole"


def test_the_table_and_the_answers_in_every_form(bench, swept, capsys):
    assert sweep(bench, "--show", "whole", experiment=False) == 0
    shown = capsys.readouterr().out
    assert "Load 1: early-k2 is recommended: 1.54x [95 % interval" in shown
    assert "Load 2: plain is recommended: early-k2 ran at" in shown
    assert "From load 2 on speculation was not shown to pay." in shown
    assert sweep(bench, "--show", swept, "--format", "md", experiment=False) == 0
    assert capsys.readouterr().out == (swept / "sweep.md").read_text()
    assert sweep(bench, "--show", "last", "--format", "csv", experiment=False) == 0
    text = capsys.readouterr().out
    assert text == (swept / "sweep.csv").read_text()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == 2 * 5
    assert [(r["load"], r["candidate"]) for r in rows if r["recommended"]] == [
        ("1", "early-k2"),
        ("2", "plain"),
    ]
    assert sweep(bench, "--show", "whole", "--json", experiment=False) == 0
    assert json.loads(capsys.readouterr().out) == document(bench, "whole")


def test_the_plot_marks_where_speculation_stops_paying(bench, swept, monkeypatch, capsys):
    monkeypatch.setattr(sweep_call, "write_charts", write_charts)
    assert sweep(bench, "--show", "whole", experiment=False) == 0
    capsys.readouterr()
    drawing = (swept / "throughput.svg").read_text()
    for text in ("load 1", "load 2", "early-k8", "from load 2 on speculation does not pay"):
        assert text in drawing
    rows = list(csv.DictReader((swept / "throughput.csv").open()))
    plain = {row["load"]: row for row in rows if row["candidate"] == "plain"}
    # 24 tokens in 240 ms; 25 in 260 of a request, two requests at a time.
    assert float(plain["1"]["tokens/s user"]) == pytest.approx(100)
    assert float(plain["2"]["tokens/s device"]) == pytest.approx(2 * 25 / 0.26)


def test_showing_reads_files_alone(bench, swept):
    def refuse(module, attribute):
        raise AssertionError(f"{module} was asked for")

    with pytest.MonkeyPatch.context() as inner:
        inner.setattr("specbench.catalog.load", refuse)
        assert sweep(bench, "--show", "whole", "--json", experiment=False) == 0
        assert sweep(bench, "--show", "whole", "--emit", "profile", experiment=False) == 0


def test_a_profile_is_emitted(bench, swept, capsys):
    assert sweep(bench, "--show", "whole", "--emit", "profile", experiment=False) == 0
    found = json.loads(capsys.readouterr().out)
    first, second = found["profiles"]
    assert (first["load"], first["candidate"], first["recommended"]) == (1, "early-k2", True)
    assert (second["candidate"], second["recommended"]) == ("early-k2", False)
    assert first["accept_length"]["value"] == 2.0
    # Of three steps one accepts both tokens, one the first alone.
    rates = [(p["cumulative"]["value"], p["conditional"]["value"]) for p in first["positions"]]
    assert rates == [pytest.approx((2 / 3, 2 / 3)), pytest.approx((1 / 3, 1 / 2))]
    assert "accepted_k / judged_k" in found["definitions"]["accept_pos"]


def test_a_drafter_that_a_server_lacks_is_refused(bench, swept, capsys):
    assert sweep(bench, "--show", "whole", "--emit", "vllm", experiment=False) == 2
    assert "no drafter like layer_skip" in capsys.readouterr().err


def outcome(bench, name):
    """What a sweep says of load 1, without the names of runs."""
    found = document(bench, name)
    parts = ("steps", "standings", "confirmed", "recommended")
    text = json.dumps([one for part in parts for one in found[part] if one["load"] == 1])
    return re.sub(r"\d{8}T\d{6}Z-[0-9a-f]{8}", "RUN", text)


def test_a_sweep_that_was_killed_goes_on_to_the_same_end(bench, swept, capsys):
    run, count = ScriptedEngine.run, iter(range(10_000))

    def interrupted(self, arm, requests, concurrency):
        # 18 requests of the scout, 24 of the rung, 18 of the confirmation, in the middle of both.
        if not requests[0].key.suite.startswith("warm-up/") and next(count) in (29, 50):
            raise KeyboardInterrupt
        yield from run(self, arm, requests, concurrency)

    with pytest.MonkeyPatch.context() as inner:
        inner.setattr(ScriptedEngine, "run", interrupted)
        assert sweep(bench, "--load", 1, "--limit", 6, "--name", "cut") == 130
        assert "specbench sweep --resume" in capsys.readouterr().err
        assert sweep(bench, "--show", "cut", experiment=False) == 1
        assert "INCOMPLETE: 1 of 1 loads" in capsys.readouterr().out
        assert sweep(bench, "--resume", "cut", experiment=False) == 130
    assert [step["kind"] for step in document(bench, "cut")["steps"]] == ["scout", "rung"]
    assert sweep(bench, "--resume", "cut", experiment=False) == 0
    assert outcome(bench, "cut") == outcome(bench, "whole")
    engines = len(bench.engines)
    assert sweep(bench, "--resume", "cut", experiment=False) == 0
    assert len(bench.engines) == engines


def test_objectives_keep_a_candidate_from_winning(bench, capsys):
    # K = 2 is the fastest; a step of it, two tokens at most, takes 13 ms and one of K = 1 12 ms.
    arguments = [
        "--k",
        "1,2",
        "--slo",
        "itl=12.5ms",
        "--limit",
        6,
        "--name",
        "slo",
        "--max-minutes",
        60,
    ]
    assert sweep(bench, *arguments) == 0
    found = document(bench, "slo")
    assert found["recommended"][0]["name"] == "early-k1"
    states = {s["name"]: s["state"] for s in found["standings"]}
    assert states["early-k2"] == "0% of its requests keep itl <= 12.5 ms"
    assert "goodput" in capsys.readouterr().out


def test_the_plan_names_rungs_and_makes_nothing(bench, swept, capsys):
    assert sweep(bench, "--load", LOADS, "--plan", "--json", "--name", "no") == 0
    one, two = json.loads(capsys.readouterr().out)
    assert one["candidates"] == ["plain", *(f"early-k{k}" for k in KS)]
    assert one["measured_first"] == ["early-k1", "early-k8"]
    dev = sum(split_of("prompts", f"p{i:02}") == "dev" for i in range(40))
    assert one["dev_prompts_by_rung"] == two["dev_prompts_by_rung"] == [8, dev]
    assert not (bench.out / "sweeps" / "no").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--load", "0"], "0 is too small"),
        (["--load", "64"], "never 64 requests run at a time"),
        (["--k", "1,x"], "not whole numbers"),
        (["--slo", "ttft=fast"], "is not a duration"),
        (["--rate", "2", "--load", "4"], "takes the next request when one ends"),
        (["--temperature", "0", "--temperature", "1"], "one temperature"),
        (["--name", "a/b"], "not the name of a folder"),
        (["--name", "whole"], "exists already"),
        (["--resume", "whole"], "--resume beside"),
        (["--drafter", "none"], "no arm that drafts"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_measured(bench, swept, arguments, words, capsys):
    engines = len(bench.engines)
    assert sweep(bench, *arguments) == 2
    assert words in capsys.readouterr().err.replace("\n", " ")
    assert len(bench.engines) == engines


def test_no_such_sweep(bench, capsys):
    assert sweep(bench, "--show", "nowhere", experiment=False) == 3
    assert "no sweep 'nowhere'" in capsys.readouterr().err
