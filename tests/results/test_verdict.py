"""The sentence under the table claims no more than the interval shows."""

from __future__ import annotations

import pytest

from specbench.results.summary import Figure, SummaryRow
from specbench.results.verdict import sentence


def row(arm="ngram", value=1.5, low=1.2, high=1.8, guards=(), temperature=0.0, **figures):
    values = {
        "speedup": Figure(value, "x", low, high, 12),
        "speedup_sound": Figure(None, "x", reason="none"),
        "detectable": Figure(0.08, "1"),
        "degenerate_share": Figure(0.0, "1"),
        **figures,
    }
    return SummaryRow(
        *("all", temperature, 1, arm, 12, "rejection", "proven", "", ""),
        figures=values,
        guards=guards,
    )


PLAIN = row("plain", None, None, None)


def test_a_win_names_arm_size_prompts_and_limit():
    assert sentence([PLAIN, row(), row("skip", 1.1, 1.05, 1.2)]) == (
        "At temperature 0, ngram had the largest speed-up, 1.50x plain [95 % interval 1.20 to "
        "1.80], over 12 prompts (the smallest difference this run could show is 8.0 %)."
    )


@pytest.mark.parametrize(("low", "high"), [(0.9, 1.8), (1.0, 1.8), (None, None)])
def test_no_win_where_the_interval_holds_one_or_is_missing(low, high):
    text = sentence([PLAIN, row(low=low, high=high)])
    assert "no arm was shown to be faster than plain" in text
    assert "largest speed-up" not in text


def test_slower_is_said_in_words():
    assert "every arm was slower than plain" in sentence([PLAIN, row(value=0.8, low=0.7, high=0.9)])


def test_a_guarded_arm_is_not_ranked_an_explained_one_is():
    assert "no arm is ranked (draft_inert)" in sentence([PLAIN, row(guards=("draft_inert",))])
    assert "largest speed-up" in sentence([PLAIN, row(guards=("ttft_outlier",))])
    assert "largest speed-up" in sentence([PLAIN, row(guards=("not_streamed",))])
    assert "(plain_speculates)" in sentence([PLAIN, row(guards=("plain_speculates",))])
    both = sentence([PLAIN, row(guards=("one_server_start", "draft_inert", "retried"))])
    assert "no arm is ranked (draft_inert)" in both
    text = sentence([PLAIN, row(guards=("not_interleaved",)), row("skip", 1.1, 1.05, 1.2)])
    assert "skip had the largest speed-up" in text


def test_looping_outputs_do_not_count_towards_a_win():
    loops = {
        "degenerate_share": Figure(0.25, "1"),
        "speedup_sound": Figure(1.02, "x", 0.95, 1.1, 9),
    }
    text = sentence([PLAIN, row(**loops)])
    assert "no arm was shown to be faster" in text
    assert "over the 9 of 12 prompts without looping output" in text


def test_one_clause_per_temperature():
    text = sentence([PLAIN, row(), row(temperature=0.7, value=0.9, low=0.8, high=0.95)])
    assert text.count("at temperature") + text.count("At temperature") == 2


def test_nothing_measured_is_said():
    assert sentence([PLAIN]) == "At temperature 0, no speed-up could be measured."
    assert sentence([]) == ""
