"""The predicted speed-up in words: the formula with its numbers, then the measured one."""

from __future__ import annotations

from dataclasses import replace

from specbench.report.markdown import markdown
from specbench.report.predictions import LEGEND, predictions
from specbench.results.summary import Figure
from tests.report.test_console_summary import MISSING, SUMMARY, row, shown


def predicted(arm="eagle3", *, value=1.74, error=0.031, share=1.0, **changes):
    numbers = {
        "predicted_speedup": value,
        "predicted_length": 2.61,
        "predicted_drafted": share,
        **{"predicted_step": 1.5, "predicted_d": 0.31, "predicted_v": 1.12, "predicted_o": 0.07},
        "predicted_idle": 1.06,
        "prediction_error": error,
    }
    figures = {name: Figure(number, "1") for name, number in numbers.items()}
    return row(arm, **{**figures, "speedup": Figure(1.69, "x", 1.6, 1.8), **changes})


def lines(*rows):
    return predictions(replace(SUMMARY, rows=rows))


def test_the_formula_stands_beside_what_was_measured():
    assert lines(predicted()) == [
        "T=0 eagle3: 1.74x = 2.61 / (d 0.31 + v 1.12 + o 0.07), measured 1.69x (+3 %)",
        LEGEND,
    ]
    assert lines(predicted(error=-0.002))[0].endswith("measured 1.69x (+0 %)")
    assert lines(predicted(error=-0.116))[0].endswith("measured 1.69x (-12 %)")
    assert lines(predicted(speedup=MISSING))[0].endswith("+ o 0.07)")


def test_steps_without_a_draft_are_shown_where_there_are_some():
    assert (
        "= 2.61 / (0.35 x (d 0.31 + v 1.12 + o 0.07) + 0.65 x 1.06),"
        in lines(predicted(share=0.35))[0]
    )
    assert "= 2.61 / 1.06," in lines(predicted(share=0.0))[0]


def test_costs_that_nobody_timed_are_left_out_or_named():
    none = Figure(None, "1", reason="nothing to measure: every step drafted")
    assert lines(predicted(predicted_idle=none)) == lines(predicted())
    assumed = Figure(None, "1", reason="not available: taken as plain's")
    assert (
        "= 2.61 / (0.99 x (d 0.31 + v 1.12 + o 0.07) + 0.01 x 1.00 as plain's), measured"
        in lines(predicted(share=0.99, predicted_idle=assumed))[0]
    )
    assert "= 2.61 / 1.00 as plain's," in lines(predicted(share=0.0, predicted_idle=assumed))[0]


def test_without_spans_a_step_is_one_number():
    off = Figure(None, "1", reason="spans were off")
    bare = predicted(predicted_d=off, predicted_v=off, predicted_o=off)
    assert "= 2.61 / (1.50)," in lines(bare)[0]


def test_an_arm_without_a_prediction_says_why_beside_those_with_one():
    reason = "not available: the calibration saw no step with a whole draft"
    absent = row("ngram", predicted_speedup=Figure(None, "x", reason=reason))
    assert lines(predicted(), absent)[1] == f"T=0 ngram: n/a ({reason})"
    assert lines(absent) == []


def test_runs_without_a_calibration_have_no_such_section():
    assert predictions(SUMMARY) == []
    assert "redicted" not in shown(SUMMARY)
    assert "redicted" not in markdown(SUMMARY)


def test_plain_and_single_suites_of_several_are_left_out_and_load_is_named():
    plain = replace(predicted("plain"), rule="")
    pooled = [replace(predicted(), suite="all", concurrency=c) for c in (1, 4)]
    found = lines(plain, predicted(), *pooled)
    assert [line.partition(":")[0] for line in found[:-1]] == ["T=0 eagle3 c=1", "T=0 eagle3 c=4"]


def test_console_and_markdown_show_it():
    told = replace(SUMMARY, rows=(predicted(),))
    assert "predicted from calibration:\n  T=0 eagle3: 1.74x = 2.61 / (" in shown(told)
    assert "## Predicted from calibration\n- T=0 eagle3: 1.74x = 2.61 / (" in markdown(told)


def test_where_nothing_was_drafted_no_drafting_step_is_needed():
    untimed = {
        name: Figure(None, "1", reason="nothing to measure: no step drafted")
        for name in ("predicted_step", "predicted_d", "predicted_v", "predicted_o")
    }
    assert "= 2.61 / 1.06," in lines(predicted(share=0.0, **untimed))[0]
