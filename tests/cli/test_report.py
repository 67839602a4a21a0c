"""`specbench report`: one page that needs nothing else, its tables, its downloads, its files."""

from __future__ import annotations

import base64
import csv
import io
import re
import shutil

import pytest

from specbench.cli.main import call
from specbench.report.page.html import charts
from specbench.report.page.measured import Measured
from specbench.results.store import RunFolder
from tests.cli.scripted_runs import Bench

ARMS = """
[arm.k3]
drafter = "ngram"
k = 3
[arm.k5]
drafter = "ngram"
k = 5
"""
OPTIONS = "accepted = {k3 = [1, 2, 0], k5 = [5]}\nstep_ms = {k3 = 20, k5 = 10}"
"""Steps of k3 commit 2, 3 and 1 tokens in turn; 8 tokens behind the prefill's are 7 of them."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        bench = Bench(tmp_path_factory.mktemp("bench"), patch)
        assert bench.run(bench.write(items=6, arms=ARMS, options=OPTIONS)) == 0
        return bench.last()


@pytest.fixture(scope="module")
def drawn(folder):
    return {chart.name: chart for chart in charts(Measured(RunFolder(folder)))}


@pytest.fixture(scope="module")
def page(folder, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    assert call(["report", str(folder), "--html", str(path)]) == 0
    return path.read_text("utf-8")


def records(chart):
    return list(csv.DictReader(io.StringIO(chart.csv)))


def test_charts_that_the_run_has_something_to_show_in(drawn):
    assert list(drawn) == [
        *("speedup", "accept_length", "positions", "lengths", "itl", "ttft", "phases"),
        "best_k",
    ]


def test_tokens_per_step_are_counted(drawn):
    steps = {
        row["tokens"]: int(row["steps"]) for row in records(drawn["lengths"]) if row["arm"] == "k3"
    }
    # 2 + 3 + 1 + (2 of which the length limit leaves 1) = 7, on each of 6 prompts.
    assert steps == {"1": 12, "2": 6, "3": 6}
    shares = [float(r["share"]) for r in records(drawn["lengths"]) if r["arm"] == "k3"]
    assert sum(shares) == pytest.approx(1)


def test_positions_are_those_of_steps_that_reached_them(drawn):
    rows = [row for row in records(drawn["positions"]) if row["arm"] == "k5"]
    assert [(row["position"], float(row["accepted"])) for row in rows] == [
        (str(place), 1.0) for place in range(1, 6)
    ]


def test_the_best_k_is_marked(drawn):
    rows = records(drawn["best_k"])
    assert [(row["K"], row["best"]) for row in rows] == [("3", ""), ("5", "best")]
    assert float(rows[1]["speed-up"]) > float(rows[0]["speed-up"])


def test_every_value_of_the_table_is_in_the_speedup_chart(drawn, folder):
    with (folder / "table.csv").open(newline="") as stream:
        wanted = {
            row["arm"]: float(row["value"])
            for row in csv.DictReader(stream)
            if (row["metric"], row["stat"], row["category"]) == ("speedup", "value", "")
            and row["value"]
        }
    found = {row["arm"]: float(row["speedup"]) for row in records(drawn["speedup"])}
    assert found == {arm: wanted[arm] for arm in ("k3", "k5")}


def test_the_page_needs_nothing_from_elsewhere(page):
    assert not re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?(?:https?:)?//""", page)
    assert "<script" not in page
    assert "<link" not in page


def test_pictures_are_named_and_in_the_pages_colour(page, drawn):
    assert page.count('<svg role="img" aria-label=') == len(drawn)
    assert "#123457" not in page
    assert "currentColor" in page
    # The colours of arms are as they were.
    assert "#0072b2" in page
    ids = re.findall(r'id="([^"]+)"', page)
    assert len(ids) == len(set(ids))


def test_every_chart_has_its_table_and_a_download(page, drawn):
    for name, chart in drawn.items():
        assert f'id="run-1-{name}"' in page
        found = re.search(rf'download="{name}.csv" href="data:text/csv;base64,([^"]+)"', page)
        assert base64.b64decode(found.group(1)).decode() == chart.csv
        assert f"<summary>Table: {chart.title}" in page


def test_files(folder, tmp_path, drawn):
    assert call(["report", str(folder), "--plots", str(tmp_path / "plots")]) == 0
    names = {path.name for path in (tmp_path / "plots").iterdir()}
    assert names == {f"{name}.{kind}" for name in drawn for kind in ("csv", "png", "svg")}
    assert (tmp_path / "plots" / "speedup.png").read_bytes().startswith(b"\x89PNG")
    assert "#123457" not in (tmp_path / "plots" / "speedup.svg").read_text()


def test_several_runs_stand_below_each_other(folder, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    out = tmp_path / "two.html"
    assert call(["report", str(folder), str(other), "--html", str(out)]) == 0
    text = out.read_text("utf-8")
    assert text.count("<h1>") == 2
    assert 'id="run-2-speedup"' in text
    ids = re.findall(r'id="([^"]+)"', text)
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ([], 2, "where to?"),
        (["--html", "no/such/folder/x.html"], 2, "no such folder"),
    ],
)
def test_what_cannot_be_asked(folder, capsys, arguments, code, says):
    assert call(["report", str(folder), *arguments]) == code
    assert says in capsys.readouterr().err


def test_a_run_without_its_table(folder, tmp_path, capsys):
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    (other / "table.csv").unlink()
    assert call(["report", str(other), "--html", str(tmp_path / "x.html")]) == 2
    assert "specbench rescore" in capsys.readouterr().err
