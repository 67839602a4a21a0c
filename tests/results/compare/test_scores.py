"""Scores of answers in a comparison: paired differences, by hand."""

import pytest

from specbench.results.compare.compare import compare
from specbench.results.compare.verdict import Verdict
from tests.results.compare.made import opened, row, write_run

ITEMS = [f"p{number:02}" for number in range(12)]


def compared(folder, made, measures=("quality",)):
    """Scores of arms a and b by kind: ``(kind, score of a, score of b)`` per prompt."""
    rows = []
    for item, (kind, one, other) in zip(ITEMS, made, strict=False):
        rows += [
            row(item, "a", scored_by=kind, score=one),
            row(item, "b", scored_by=kind, score=other),
        ]
    write_run(folder / "r", rows)
    pair = opened(folder / "r", "a"), opened(folder / "r", "b")
    (found,) = compare(pair[0], [pair[1]], measures=measures, by="temperature")
    return {one.contrast.measure: one for one in found.parts[0].judged}


def test_h11_right_and_wrong_by_mcnemar(tmp_path):
    # Right only in a: 6, only in b: 1; alike: 5.
    pairs = [(1, 0)] * 6 + [(0, 1)] + [(1, 1)] * 3 + [(0, 0)] * 2
    found = compared(tmp_path, [("quality_code", *pair) for pair in pairs])["quality_code"]
    one = found.contrast
    assert (one.base.value, one.new.value) == (9 / 12, 4 / 12)
    assert one.ratio.value == pytest.approx(-5 / 12)
    # Both tails of the binomial: none or one of 7.
    assert one.p == pytest.approx(16 / 128)
    assert found.verdict is not Verdict.WORSE


def test_sentence_scores_by_their_mean_difference(tmp_path):
    made = [("quality_chrf", 40.0 + number, 43.0 + 1.5 * number) for number in range(12)]
    found = compared(tmp_path, made)["quality_chrf"]
    # 3 + mean of 0, 0.5 .. 5.5.
    assert found.contrast.ratio.value == pytest.approx(3 + 2.75)
    assert found.contrast.ratio.unit == "points"
    assert found.verdict is Verdict.BETTER
    # Every prompt points one way: 2 of 2^12 swaps.
    assert found.contrast.p == pytest.approx(2 / 2**12)


def test_every_kind_by_itself_and_only_those_there_are(tmp_path):
    made = [("quality_json", 1, 1)] * 6 + [("quality_chrf", 50.0, 50.0)] * 6
    found = compared(tmp_path, made)
    assert list(found) == ["quality_chrf", "quality_json"]
    assert all(one.verdict is Verdict.NO_DIFFERENCE for one in found.values())
    # No prompt of 6 differs: less than 1 - 0.05^(1/6) of all do.
    assert found["quality_json"].contrast.ratio.high == pytest.approx(1 - 0.05 ** (1 / 6))


def test_scores_are_a_family_of_their_own(tmp_path):
    made = [("quality_chrf", 40.0 + number, 45.0 + number) for number in range(12)]
    alone = compared(tmp_path / "one", made)["quality_chrf"]
    beside = compared(tmp_path / "two", made, measures=("quality", "itl", "ttft"))
    assert alone.p == beside["quality_chrf"].p == alone.contrast.p


def test_by_default_where_there_are_any(tmp_path):
    assert "quality_json" in compared(tmp_path / "one", [("quality_json", 1, 0)] * 4, measures=())
    assert not any("quality" in name for name in compared(tmp_path / "two", [("", "", "")] * 4, ()))


def test_nothing_that_was_scored_is_said(tmp_path):
    found = compared(tmp_path / "one", [("", "", "")] * 4)["quality"]
    assert (found.verdict, found.why) == (
        Verdict.NOT_COMPARABLE,
        "no answer of these requests is scored on both sides",
    )
    code = compared(tmp_path / "two", [("quality_code", "", "")] * 4)["quality_code"]
    assert "--score code" in code.why


def test_files_from_before_scores_were_kept_are_read(tmp_path):
    write_run(tmp_path / "r", [row(item, name) for item in ITEMS for name in "ab"])
    path = tmp_path / "r" / "items.csv"
    lines = [line.rsplit(",", 2)[0] for line in path.read_text().splitlines()]
    assert lines[0].endswith(",degenerate")
    path.write_text("\n".join(lines) + "\n")
    pair = opened(tmp_path / "r", "a"), opened(tmp_path / "r", "b")
    (found,) = compare(pair[0], [pair[1]], measures=(), by="temperature")
    assert {one.contrast.measure for one in found.parts[0].judged} >= {"accept_length", "itl"}
