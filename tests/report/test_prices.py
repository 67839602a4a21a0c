"""Speed beside its price: a row per temperature and rule, and a verdict that never overclaims."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specbench.report.console import WIDTH
from specbench.report.markdown import markdown
from specbench.report.prices import prices, verdicts
from specbench.results.summarise import FIDELITY_FIGURES, FIGURES
from specbench.results.summary import DETECTED, UNSEEN, Figure, Summary, SummaryRow
from specbench.results.verdict import sentence
from tests.report.test_console_summary import SUMMARY, shown

PASSED = "passed, n=4000 tokens, p=0.4, would have caught TV 0.05 (moved to the draft's choice)"
FAILED = "FAILED: draft_bias p=1e-09 (surprisal Z=-9.1), n=4000 tokens"


def row(arm="exact", lossless="proven", identity="passed", fidelity=PASSED, **changes):
    figures = {name: Figure(0.0, "1") for name in {**FIGURES, **FIDELITY_FIGURES}}
    figures["accept_length"] = Figure(2.5, "tokens/step")
    figures["speedup"] = Figure(1.5, "x", 1.2, 1.8, 12)
    figures["speedup_sound"] = Figure(None, "x", reason="none")
    figures |= changes.pop("figures", {})
    values = {"suite": "code", "temperature": 0.7, "concurrency": 1, "rule": "rejection", **changes}
    return SummaryRow(
        **values,
        arm=arm,
        prompts=12,
        lossless=lossless,
        identity=identity,
        identity_detail="",
        figures=figures,
        fidelity=fidelity,
    )


def cost(mean, worst, kl, entropy, **interval):
    return {
        "price_tv": Figure(mean, "1", n=12, **interval),
        "price_tv_worst": worst if isinstance(worst, Figure) else Figure(worst, "1", n=500),
        "price_kl": kl if isinstance(kl, Figure) else Figure(kl, "nats", n=12),
        "price_entropy": entropy if isinstance(entropy, Figure) else Figure(entropy, "nats", n=12),
    }


LOOSE = row(
    "loose", "lossy", DETECTED, FAILED, rule="lenient",
    figures=cost(0.125, 0.75, 0.031, -0.42, low=0.1, high=0.15),
)  # fmt: skip
PLAIN = row("plain", rule="", figures={"speedup": Figure(None, "x", reason="plain itself")})


def summary(*rows: SummaryRow) -> Summary:
    return replace(SUMMARY, rows=rows)


def table(*rows):
    found = prices(summary(*rows))
    return [dict(zip(found.header, cells, strict=True)) for cells in found.rows], found.footnotes


def test_a_row_has_speed_and_price():
    found, notes = table(PLAIN, row(), LOOSE)
    assert notes == ()
    assert list(found[2].items()) == [
        ("T", "0.7"),
        ("arm", "loose"),
        ("rule", "lenient"),
        ("lossless", "lossy"),
        ("accept length", "2.50"),
        ("speed-up [95 %]", "1.50x [1.20, 1.80]"),
        ("TV per token [95 %], worst", "0.125 [0.100, 0.150], 0.75"),
        ("KL nats", "0.031"),
        ("entropy shift", "-0.42"),
        ("output", DETECTED),
    ]
    assert (found[0]["rule"], found[0]["speed-up [95 %]"]) == ("-", "-")
    lossless = found[1]
    assert lossless["TV per token [95 %], worst"] == "0 by proof"
    assert (lossless["KL nats"], lossless["entropy shift"]) == ("0", "0")


def test_every_temperature_and_rule_is_a_row_and_greedy_rows_are_not():
    rows = [
        replace(one, temperature=t, identity="identical" if t == 0 else one.identity)
        for t in (0.0, 0.7, 1.0)
        for one in (PLAIN, row(), LOOSE)
    ]
    found, _ = table(*rows)
    assert [(cells["T"], cells["arm"]) for cells in found] == [
        (t, arm) for t in ("0.7", "1") for arm in ("plain", "exact", "loose")
    ]


def test_only_the_rows_over_all_suites_are_shown():
    rows = [replace(row(), suite=suite) for suite in ("code", "chat", "all")]
    found, _ = table(*rows)
    assert len(found) == 1
    # One suite alone is all of them.
    assert len(table(row())[0]) == 1


def test_an_engine_without_probabilities_has_no_table():
    found, _ = table(row(identity="", fidelity=""))
    assert found == []
    assert "price" not in markdown(summary(row(identity="", fidelity="")))


def test_zero_by_proof_is_said_of_proven_rules_alone():
    measured = replace(LOOSE, figures={**LOOSE.figures, **cost(0.0, 0.0, 0.0, 0.0)})
    found, _ = table(measured)
    assert found[0]["TV per token [95 %], worst"] == "0.000, 0.00"


def test_an_estimate_says_so_and_unknown_is_not_zero():
    missing = Figure(None, "nats", reason="not available: the rule has no law of single tokens")
    worst = replace(missing, unit="1")
    estimated = replace(
        LOOSE, price_exact=False,
        figures={**LOOSE.figures, **cost(0.2, worst, missing, missing, low=0.1, high=0.3)},
    )  # fmt: skip
    found, notes = table(estimated)
    assert found[0]["TV per token [95 %], worst"] == "0.200 [0.100, 0.300] estimated, at least"
    assert (found[0]["KL nats"], found[0]["entropy shift"]) == ("n/a[1]", "n/a[1]")
    assert notes == (missing.reason,)


def test_an_infinite_divergence_leaves_the_entropy_shift():
    infinite = Figure(None, "nats", reason="not available: infinite: the rule leaves the support")
    found, notes = table(
        replace(LOOSE, figures={**LOOSE.figures, **cost(0.2, 0.9, infinite, -0.5)})
    )
    assert (found[0]["KL nats"], found[0]["entropy shift"]) == ("n/a[1]", "-0.5")
    assert notes == (infinite.reason,)


def test_no_price_has_its_reason():
    missing = Figure(None, "1", reason="not available: acceptance is made up")
    figures = {**LOOSE.figures, **cost(None, missing, missing, missing), "price_tv": missing}
    found, notes = table(replace(LOOSE, lossless="meaningless", figures=figures))
    cells = found[0]
    assert {cells[name] for name in ("TV per token [95 %], worst", "KL nats", "entropy shift")} == {
        "n/a[1]"
    }
    assert notes == (missing.reason,)


def test_concurrency_is_a_column_only_where_it_varies():
    assert "c" not in prices(summary(row())).header
    found = prices(summary(row(), replace(row(), concurrency=8)))
    assert found.header[:3] == ("T", "c", "arm")
    assert [cells[1] for cells in found.rows] == ["1", "8"]
    lines = verdicts(summary(row(), replace(row(), concurrency=8)))
    assert [line[: line.index(":")] for line in lines] == ["T=0.7 exact c=1", "T=0.7 exact c=8"]


@pytest.mark.parametrize(
    ("lossless", "identity", "fidelity", "text"),
    [
        ("proven", "passed", PASSED, PASSED),
        ("proven", "FAILED", FAILED, FAILED),
        (
            "lossy", DETECTED, FAILED,
            "detected, as a lossy rule should be: draft_bias p=1e-09 (surprisal Z=-9.1), "
            "n=4000 tokens",
        ),
        (
            "lossy", UNSEEN, PASSED,
            "lossy, but not detected: n=4000 tokens, p=0.4, would have caught TV 0.05 "
            "(moved to the draft's choice)",
        ),
        ("meaningless", "meaningless", PASSED, "meaningless: acceptance is made up"),
        (
            "lossy", "too few", "too few tokens: n=3, no test could have failed",
            "too few tokens: n=3, no test could have failed",
        ),
        (
            "proven", "", "not tested: the evidence is damaged: column entropy is nan",
            "not tested: the evidence is damaged: column entropy is nan",
        ),
    ],
)  # fmt: skip
def test_a_verdict_says_passed_or_failed_of_lossless_rules_alone(
    lossless, identity, fidelity, text
):
    assert verdicts(summary(row("arm", lossless, identity, fidelity))) == [f"T=0.7 arm: {text}"]


def test_both_reports_hold_table_and_verdicts_within_the_width():
    made = summary(PLAIN, row(), LOOSE)
    text, document = shown(made), markdown(made)
    assert max(map(len, text.splitlines())) <= WIDTH
    assert "| 0.7 | loose | lenient | lossy | 2.50 | 1.50x [1.20, 1.80] | 0.125 [" in document
    for line in verdicts(made):
        assert f"- {line}" in document
    assert "0 by proof" in text
    assert "detected, as a lossy rule should be" in " ".join(text.split())


def test_lossy_arms_are_not_ranked_with_lossless_ones():
    fast = replace(LOOSE, figures={**LOOSE.figures, "speedup": Figure(9.0, "x", 8.0, 10.0, 12)})
    text = sentence([PLAIN, row(), fast])
    assert text.startswith("At temperature 0.7, exact had the largest speed-up, 1.50x plain")
    assert text.endswith(
        "; of the lossy arms loose was the fastest at 9.00x, for a total variation of 0.125 per "
        "token."
    )
    made_up = replace(fast, arm="made_up", lossless="meaningless")
    assert sentence([PLAIN, row(), made_up]) == sentence([PLAIN, row()])


def test_a_lossy_arm_alone_does_not_hide_that_it_was_measured():
    text = sentence([PLAIN, LOOSE])
    assert text == (
        "At temperature 0.7, no speed-up of a lossless arm was measured; of the lossy arms loose "
        "was the fastest at 1.50x, for a total variation of 0.125 per token."
    )
    estimated = replace(LOOSE, price_exact=False)
    assert sentence([PLAIN, estimated]).endswith("total variation of at least 0.125 per token.")


def test_a_lossless_arm_whose_output_differs_is_not_ranked():
    broken = replace(row(), identity="FAILED", guards=("output_differs",))
    assert "no arm is ranked (output_differs)" in sentence([PLAIN, broken])
    slower = row("second", figures={"speedup": Figure(1.1, "x", 1.05, 1.2, 12)})
    assert "second had the largest speed-up" in sentence([PLAIN, broken, slower])
