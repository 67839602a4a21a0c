"""What a reader sees: a value, n/a with its reason, or 0; 120 columns; words beside colours."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from specbench.report.cells import grid
from specbench.report.console import WIDTH, ConsoleSummary
from specbench.report.joint import joint_grid, joint_markdown
from specbench.report.markdown import markdown
from specbench.results.summarise import FIGURES
from specbench.results.summary import Figure, Summary, SummaryRow
from tests.results.records import MANIFEST

MISSING = Figure(None, "x", reason="nothing to measure: plain is the reference")


def row(arm="ngram", identity="", **figures):
    values = {name: Figure(0.0, "1") for name in FIGURES}
    values["speedup"] = Figure(0.95, "x", 0.9, 0.99)
    return SummaryRow(
        *("translation", 0.0, 1, arm, 12, "rejection", "proven", identity, ""),
        figures={**values, **figures},
    )


SUMMARY = Summary(
    *("run-1", "demonstration", "model", "float32", "cpu", True, 8, 8, 0, 0, 4, 0),
    sentence="At temperature 0, no arm was shown to be faster than plain.",
    rows=(row("plain", speedup=MISSING), row(), row("layer_skip", identity="MISMATCH 3/12")),
    warnings=("draft_inert: code: 0 accepted; check the draft",),
    failures=(),
    memory={"plain": {"target_weights": 538_000_000, "draft_weights": 0, "peak": None}},
)


def shown(summary, **options):
    text = io.StringIO()
    Console(file=text, width=WIDTH, highlight=False, **options).print(
        ConsoleSummary(summary, "results/run-1")
    )
    return text.getvalue()


def test_heading_sentence_warnings_memory_and_path_are_shown():
    text = shown(SUMMARY)
    assert text.startswith("demonstration: model, float32, cpu, run run-1")
    for part in (SUMMARY.sentence, "draft_inert", "target weights 538.0 MB", "results/run-1"):
        assert part in text
    assert "draft weights 0 B" in text
    assert "peak n/a" in text


def test_three_states_differ():
    cells = grid(SUMMARY).rows
    assert cells[0][8] == "n/a[1]"
    assert grid(SUMMARY).footnotes == ("nothing to measure: plain is the reference",)
    assert cells[1][3] == "0.00"
    assert cells[1][8] == "0.95x [0.90, 0.99] slower"


def test_a_guard_of_the_whole_run_marks_no_row():
    guarded = [replace(row(), guards=g) for g in (("one_server_start",), ("retried",), ())]
    guarded.append(replace(row(), guards=("one_server_start", "retried")))
    names = [cells[2] for cells in grid(replace(SUMMARY, rows=tuple(guarded))).rows]
    assert names == ["ngram", "ngram !", "ngram", "ngram !"]


def test_outputs_that_nobody_can_judge_say_so():
    def place(**changes):
        only = grid(replace(SUMMARY, rows=(replace(row(), **changes),)))
        return only.rows[0][only.header.index("output")], only.footnotes

    mark, notes = place(temperature=0.7)
    assert mark == "n/a[1]"
    assert notes[0].startswith(
        "no target probabilities: specbench fidelity RUN --reference MODEL or server:URL"
    )
    assert place(arm="plain", temperature=0.7)[0] == "n/a[1]"
    assert place(temperature=0.7, identity="passed")[0] == "passed"
    assert place(temperature=0.7, fidelity="not tested: unfinished")[0] == "-"
    assert place(temperature=0.7, lossless="meaningless")[0] == "-"
    assert place(temperature=0.7, prompts=0)[0] == "-"
    assert place()[0] == "-"


def test_where_acceptance_came_from_stands_below_the_table():
    line = "acceptance: totals per request (sglang meta_info)"
    told = replace(SUMMARY, acceptance=(line,))
    text = shown(told)
    assert text.index("layer_skip") < text.index(line) < text.index(SUMMARY.sentence)
    assert f"\n\n{line}\n\n{SUMMARY.sentence}\n" in markdown(told)
    named = [replace(MANIFEST, engine={"name": name}) for name in ("native", "sglang")]
    joint = joint_grid(named, [SUMMARY, told])
    assert joint.remarks == (f"sglang: {line}",)
    assert f"- sglang: {line}\n" in joint_markdown(joint)


def test_it_fits_and_keeps_its_words_without_colour():
    text = shown(SUMMARY)
    assert max(map(len, text.splitlines())) <= WIDTH
    assert "\x1b[" not in text
    assert "MISMATCH 3/12" in text
    assert "0.95x [0.90, 0.99] slower" in text
    assert "\x1b[" in shown(SUMMARY, force_terminal=True, color_system="standard")


def test_an_incomplete_run_says_so_first():
    partial = replace(SUMMARY, complete=False, ok=5, failed=1)
    text = shown(partial)
    assert "INCOMPLETE, not to be ranked: 4 conversations, 5 of 8 requests done, 1 failed" in text
    assert "2 missing" in text
    assert "INCOMPLETE" in markdown(partial)


def test_concurrency_is_a_column_only_where_it_varies():
    assert "c" not in grid(SUMMARY).header
    loaded = replace(SUMMARY, rows=(*SUMMARY.rows, replace(row(), concurrency=8)))
    assert [cells[2] for cells in grid(loaded).rows] == ["1", "1", "1", "8"]


def test_markdown_holds_the_same_table():
    text = markdown(SUMMARY)
    assert text.startswith("# demonstration")
    assert "| translation | 0 | ngram | 0.00 | 0.00 | 0.0/0.0 | 0 | 0.0 |" in text
