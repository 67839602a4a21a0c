"""Quality beside speed: paired differences with intervals, in words that do not overclaim."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specbench.report.markdown import markdown
from specbench.report.quality import qualities, signatures
from specbench.results.summarise import FIGURES
from specbench.results.summary import Figure, Summary, SummaryRow
from tests.report.test_console_summary import SUMMARY, shown

CODE, CHRF = "quality_code", "quality_chrf"
NONE = Figure(None, "1", reason="not there")


def scored(value, plain, difference, p, unit="1", low=None, high=None, n=20):
    return {
        "value": Figure(value, unit, n=n),
        "plain": Figure(plain, unit, n=n),
        "difference": Figure(difference, unit, low, high, n),
        "p": Figure(p, "1", n=n),
    }


def row(arm="loose", quality=None, **changes):
    values = {
        "suite": "code",
        "temperature": 0.7,
        "concurrency": 1,
        "rule": "lenient",
        "identity": "differs",
        **changes,
    }
    return SummaryRow(
        **values,
        arm=arm,
        prompts=20,
        lossless="lossy",
        identity_detail="",
        figures={name: Figure(0.0, "1") for name in FIGURES},
        quality=quality or {CODE: scored(0.35, 0.5, -0.15, 0.25, low=-0.4, high=0.1)},
    )


def summary(*rows: SummaryRow, **changes: object) -> Summary:
    return replace(SUMMARY, rows=rows, **changes)  # type: ignore[arg-type]


def test_a_line_has_both_scores_the_difference_and_its_interval():
    assert qualities(summary(row())) == [
        "T=0.7 loose: code that passes its tests 0.35, plain 0.50; difference -0.15 "
        "[-0.40, +0.10]: no difference shown (p = 0.25, 20 items)"
    ]


@pytest.mark.parametrize(
    ("p", "word"),
    [(0.0499, "a difference (p = 0.05, "), (0.05, "a difference"), (0.051, "no difference shown")],
)
def test_a_difference_is_one_at_five_percent(p, word):
    (line,) = qualities(summary(row(quality={CODE: scored(0.9, 0.5, 0.4, p)})))
    assert f": {word}" in line
    assert "difference +0.40:" in line


def test_points_have_one_digit_after_the_dot():
    figures = scored(31.26, 33.5, -2.24, 0.01, unit="points", low=-4.0, high=-0.49)
    (line,) = qualities(summary(row(quality={CHRF: figures})))
    assert "translation chrF 31.3, plain 33.5; difference -2.2 [-4.0, -0.5]: a difference" in line


def test_what_is_missing_is_said():
    alone = {"value": Figure(0.4, "1", n=9), "plain": NONE, "difference": NONE, "p": NONE}
    (line,) = qualities(summary(row(quality={CODE: alone})))
    assert line.endswith("0.40, plain n/a; no difference: not there")
    untested = {**scored(0.4, 0.4, 0.0, 1.0), "p": NONE}
    (line,) = qualities(summary(row(quality={CODE: untested})))
    assert line.endswith("difference +0.00: no p")
    unscored = dict.fromkeys(("value", "plain", "difference", "p"), NONE)
    assert qualities(summary(row(quality={CODE: unscored}))) == []


def test_plain_and_arms_with_plain_s_own_output_have_no_line():
    rows = [
        row("plain", rule="", identity=""),
        row("exact", identity="identical"),
        row("tied", identity="tie 2/20"),
        row("broken", identity="MISMATCH 1/20"),
        row("quiet", identity=""),
    ]
    assert [line.split()[1] for line in qualities(summary(*rows))] == ["broken:", "quiet:"]


def test_only_rows_over_all_suites_are_shown():
    rows = [row(suite=suite) for suite in ("code", "chat", "all")]
    assert len(qualities(summary(*rows))) == 1


def test_concurrencies_are_told_apart():
    lines = qualities(summary(row(), row(concurrency=8)))
    assert [line[: line.index(":")] for line in lines] == ["T=0.7 loose c=1", "T=0.7 loose c=8"]


def test_both_reports_hold_the_lines_and_how_they_were_computed():
    made = summary(row(), signatures={CODE: "python:3.11.7", CHRF: "chrF2|nrefs:1"})
    # A signature is shown of what has a line.
    assert signatures(made) == ["code that passes its tests: python:3.11.7"]
    words = " ".join(shown(made).split())
    assert "difference -0.15 [-0.40, +0.10]" in words
    assert "code that passes its tests: python:3.11.7" in words
    assert "chrF2" not in words
    assert f"- {qualities(made)[0]}" in markdown(made)


def test_no_quality_is_no_section():
    made = summary(row("exact", identity="identical"), signatures={CODE: "python:3.11.7"})
    assert "quality" not in shown(made).lower()
    assert "quality" not in markdown(made).lower()
