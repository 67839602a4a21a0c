"""The script for a GPU, tried on a CPU: every part at toy sizes, and the time that it keeps."""

import json
import time

import pytest
import torch
from click.testing import CliRunner

from scripts.gpu.figures import Figure, Report
from scripts.gpu.main import LATE, PARTS, main, timed
from scripts.gpu.sizes import full, tiny
from scripts.gpu.stage import Stage
from scripts.gpu.timing import interleaved, summary

pytestmark = pytest.mark.usefixtures("one_thread")
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """What the script writes and says on this CPU; compiling has a test of its own."""
    path = tmp_path_factory.mktemp("gpu") / "gpu.json"
    with pytest.MonkeyPatch.context() as patch:
        patch.delitem(LATE, "compiled")
        words = ["--device", "cpu", "--size", "tiny", "--json", str(path), "--no-tests"]
        done = CliRunner().invoke(main, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return json.loads(path.read_text()), done.output


def figures(found, part):
    return {one["name"]: one for one in found["parts"][part]["figures"]}


def test_every_part_reports_or_says_why_not(written):
    found, said = written
    assert list(found["parts"]) == [*PARTS, "flashinfer"]
    assert found["sizes"] == "toys"
    assert found["environment"]["torch"] == torch.__version__
    assert found["parts"]["forwards"]["skipped"] == {"graphs": "the device has no CUDA graphs"}
    assert found["parts"]["flashinfer"]["skipped"] == {
        "flashinfer": "FlashInfer runs on CUDA devices"
    }
    assert list(found["parts"]["overlap"]["skipped"]) == ["waiting and idle time"]
    for part in found["parts"].values():
        assert "the rest" not in part["skipped"]
    assert "== speculation" in said


def test_the_bound_is_bytes_over_the_measured_rate(written):
    found, _ = written
    rates = figures(found, "rates")
    # Two layers of 64 x (64 + 32 + 32 + 64) and 3 x 64 x 96, an output of 256 x 64; keys and values
    # of 32 tokens and the new one in 2 heads of 16; four bytes each.
    weights = 2 * (64 * 192 + 3 * 64 * 96) + 256 * 64
    context = 33 * 2 * 2 * 2 * 16
    wanted = 4 * (weights + context) / rates["memory"]["value"] / 1e6
    assert rates["bound of a plain step"]["value"] == pytest.approx(wanted)


def test_ratios_are_those_of_the_times_beside_them(written):
    found, _ = written
    forwards = figures(found, "forwards")
    one, rows = forwards["eager, 1 x 1 rows"], forwards["eager, 1 x 4 rows"]
    ratio = forwards["v(4), eager, batch 1"]
    assert ratio["value"] == pytest.approx(rows["value"] / one["value"])
    assert ratio["met"] is (ratio["value"] <= 1.1)
    assert one["n"] == tiny().repeats
    assert one["spread"][0] <= one["value"] <= one["spread"][1]


def test_made_up_acceptance_is_kept(written):
    found, _ = written
    speculation = figures(found, "speculation")
    # Coins of 0.8 over three drafts: between one token a step and four.
    assert 1 < speculation["accept length"]["value"] <= 4
    assert "2.952 expected" in speculation["accept length"]["how"]
    measured, predicted = (speculation[f"{n} speed-up"]["value"] for n in ("measured", "predicted"))
    off = speculation["prediction: off by"]["value"]
    assert off == pytest.approx(abs(measured / predicted - 1))


def test_a_part_that_takes_too_long_keeps_what_it_has():
    def slow(stage, report):
        report.add("first", 1.0, "1", "at once")
        time.sleep(30)

    found = timed(slow, Stage(tiny(), CPU), 1.0)
    assert [one["name"] for one in found["figures"]] == ["first"]
    assert found["skipped"] == {"the rest": "OutOfTimeError: broken off after 1 s"}
    assert found["seconds"] < 10
    assert timed(slow, Stage(tiny(), CPU), 0.2)["skipped"] == {"all of it": "no time was left"}


def test_a_part_that_fails_does_not_end_the_others():
    def broken(stage, report):
        raise RuntimeError("no kernel\nfor this")

    assert timed(broken, Stage(tiny(), CPU), 5)["skipped"] == {
        "the rest": "RuntimeError: no kernel"
    }


def test_aims_have_a_direction():
    assert Figure("v", 1.05, "x", "", aim=1.1).met is True
    assert Figure("v", 1.15, "x", "", aim=1.1).met is False
    assert Figure("gain", 1.4, "x", "", aim=1.3, least=True).met is True
    assert Figure("gain", 1.2, "x", "", aim=1.3, least=True).met is False
    assert Figure("ms", 1.2, "ms", "").met is None


def test_times_are_taken_in_turns():
    order = []
    works = {"a": lambda: order.append("a"), "b": lambda: order.append("b")}
    found = interleaved(works, 4, CPU)
    assert order == ["a"] * 3 + ["b"] * 3 + ["a", "b"] * 4
    assert found["a"].n == 4
    # By hand: quartiles of 1, 2, 3, 4, 100 are its second and fourth.
    assert (lambda t: (t.median, t.low, t.high))(summary([100.0, 1, 2, 3, 4])) == (3, 2, 4)


def test_the_shapes_of_the_aims():
    sizes = full()
    assert (sizes.target["hidden_size"], sizes.draft["hidden_size"]) == (4096, 2048)
    assert (sizes.rows, sizes.context, sizes.batch) == (8, 1024, 32)
    assert Stage(sizes, CPU).dtype == torch.bfloat16


def test_a_report_is_strict_json():
    report = Report()
    report.add("value", 1.0, "x", "how", spread=(0.5, 1.5), n=3)
    assert json.loads(json.dumps(report.record(), allow_nan=False))["figures"][0]["n"] == 3
