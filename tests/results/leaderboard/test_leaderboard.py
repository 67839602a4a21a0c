"""Ranks, ties, blocks and reasons over hand-written runs; every form of the page."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from specbench.cli.main import call
from specbench.results.leaderboard.entries import Entry, Unread, entries
from specbench.results.leaderboard.rank import rank
from specbench.results.summary import Figure
from tests.results.compare.made import arm, row, summary_row, write_run
from tests.results.records import IDENTITY

ITEMS = [f"p{number:02}" for number in range(16)]
ARMS = {"fast": 50.0, "faster": 40.0, "slow": 80.0}


def figure(value, unit="x", spread=0.02):
    if value is None:
        return Figure(None, unit, reason="nothing to measure: nothing was drafted")
    return Figure(value, unit, value * (1 - spread), value * (1 + spread), 16)


def make(folder, speeds=ARMS, *, jitter=0.0, cells=None, **options):
    rows = [row(item, "plain", ms=100.0) for item in ITEMS]
    for place, (name, ms) in enumerate(speeds.items()):
        for number, item in enumerate(ITEMS):
            bump = jitter * (-1) ** (number + place)
            rows.append(row(item, name, ms=ms * (1 + bump)))
    found = cells if cells is not None else [cell(name, ms) for name, ms in speeds.items()]
    write_run(folder, rows, summary=found, **options)


def cell(name, ms, **changes):
    figures = {
        "speedup": figure(100 / ms),
        "speedup_sound": figure(100 / ms),
        "accept_length": figure(2.0, "tokens/step"),
        "accept_length_sound": figure(2.0, "tokens/step"),
        "degenerate_share": figure(0.0, "1"),
    }
    made = replace(summary_row(name, "identical"), figures=figures, prompts=16)
    return replace(made, **changes)


def ranks(out):
    good = [one for one in entries(out) if isinstance(one, Entry) and not one.reasons]
    return [(one.entry.row.arm, one.rank, one.tied) for one in rank(good)]


def test_by_speedup_the_largest_first(tmp_path):
    make(tmp_path / "r")
    assert ranks(tmp_path) == [("faster", 1, False), ("fast", 2, False), ("slow", 3, False)]


def test_what_no_test_tells_apart_shares_a_rank(tmp_path):
    make(tmp_path / "r", {"a": 50.0, "b": 50.5, "slow": 80.0}, jitter=0.05)
    assert ranks(tmp_path) == [("a", 1, True), ("b", 1, True), ("slow", 3, False)]


def test_runs_of_one_identity_stand_together_and_others_apart(tmp_path, capsys):
    make(tmp_path / "one", {"a": 50.0})
    make(tmp_path / "two", {"b": 40.0})
    other = replace(IDENTITY, dtype="bfloat16")
    make(tmp_path / "three", {"c": 30.0}, identity=other)
    assert call(["leaderboard", str(tmp_path), "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(one["arm"], one["rank"]) for one in rows] == [("b", 1), ("a", 2), ("c", 1)]
    assert len({one["board"] for one in rows}) == 2


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"guards": ("draft_inert",)}, "guarded: draft_inert"),
        ({"identity": "MISMATCH 1/16"}, "its output is not the target's: MISMATCH 1/16"),
        ({"lossless": "meaningless"}, "its acceptance is made up, for timing"),
        (
            {"figures": cell("a", 50.0).figures | {"speedup": figure(None)}},
            "no speed-up: nothing to measure: nothing was drafted",
        ),
    ],
)
def test_what_is_not_ranked_and_why(tmp_path, capsys, changes, why):
    make(tmp_path / "r", {"a": 50.0}, cells=[cell("a", 50.0, **changes)])
    (entry,) = entries(tmp_path)
    assert entry.reasons == (why,)
    assert call(["leaderboard", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "Not ranked:" in shown
    assert why in shown


def test_guards_that_explain_a_figure_keep_its_rank(tmp_path):
    make(tmp_path / "r", {"a": 50.0}, cells=[cell("a", 50.0, guards=("degenerate",))])
    assert ranks(tmp_path) == [("a", 1, False)]


def test_incomplete_runs_are_not_ranked(tmp_path):
    make(tmp_path / "r", {"a": 50.0})
    summary = tmp_path / "r" / "summary.json"
    summary.write_text(summary.read_text().replace('"complete": true', '"complete": false'))
    (entry,) = entries(tmp_path)
    assert entry.reasons[0].startswith("the run is not complete")


def test_lossy_rules_have_a_block_of_their_own(tmp_path, capsys):
    arms = [arm("plain"), arm("a"), arm("b", rule="lenient", lossless="lossy")]
    cells = [cell("a", 50.0), cell("b", 30.0, lossless="lossy", identity="not seen")]
    make(tmp_path / "r", {"a": 50.0, "b": 30.0}, arms=arms, cells=cells)
    assert call(["leaderboard", str(tmp_path), "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(one["arm"], one["block"], one["rank"]) for one in rows] == [
        ("a", "lossless", 1),
        ("b", "lossy", 1),
    ]


def test_what_a_draft_is(tmp_path):
    made = {"name": "model", "weight_hash": "w", "trained_on": "own answers"}
    engine = {"drafts": {"a": [{"name": "zoo:x", "made_for": made}], "b": [{"name": "hub/x"}]}}
    memory = {"a": {"draft_weights": 8_400_000}}
    make(tmp_path / "r", {"a": 50.0, "b": 60.0}, engine=engine, memory=memory)
    one, other = entries(tmp_path)
    assert (one.draft_bytes, one.training_data) == (8_400_000, "own answers")
    assert (other.draft_bytes, other.training_data) == (None, "not disclosed")


def test_damaged_and_older_files_are_named(tmp_path, capsys):
    make(tmp_path / "good", {"a": 50.0})
    make(tmp_path / "older", {"a": 50.0})
    items = tmp_path / "older" / "items.csv"
    items.write_text(items.read_text().replace("decode_ns", "something"))
    make(tmp_path / "torn", {"a": 50.0})
    (tmp_path / "torn" / "summary.json").write_text("{")
    found = list(entries(tmp_path))
    assert [type(one) for one in found] == [Entry, Entry, Unread]
    assert "specbench rescore older" in found[1].reasons[0]
    assert call(["leaderboard", str(tmp_path)]) == 0
    assert "## Not read" in capsys.readouterr().out


def test_no_runs(tmp_path, capsys):
    assert call(["leaderboard", str(tmp_path)]) == 3
    assert "no run in" in capsys.readouterr().err


class Cells(HTMLParser):
    """Texts of all table cells."""

    def __init__(self):
        super().__init__()
        self.cells, self.inside = [], False

    def handle_starttag(self, tag, attrs):
        self.inside = tag == "td"
        if self.inside:
            self.cells.append("")

    def handle_data(self, data):
        if self.inside:
            self.cells[-1] += data

    def handle_endtag(self, tag):
        self.inside = False


def test_every_form_says_the_same(tmp_path, capsys):
    make(tmp_path / "r", {"a_<b>": 50.0})
    shown = {}
    for form in ("md", "html", "latex", "csv", "json"):
        assert call(["leaderboard", str(tmp_path), "--format", form]) == 0
        shown[form] = capsys.readouterr().out
    line = next(one for one in shown["md"].splitlines() if one.startswith("| 1 |"))
    cells = [one.strip() for one in line.strip("|").split("|")]
    assert cells[:4] == ["1", "a_<b>", "native", "2.00x [1.96, 2.04]"]
    page = Cells()
    page.feed(shown["html"])
    assert page.cells == cells
    assert "http" not in re.sub(r"<!doctype.*?>", "", shown["html"])
    assert r"a\_<b> & 2.00x" in shown["latex"]
    (row_,) = csv.DictReader(io.StringIO(shown["csv"]))
    assert float(row_["speedup"]) == json.loads(shown["json"])[0]["speedup"] == 2.0
    assert row_["accept_length_definition"] == "accept_length@1"
