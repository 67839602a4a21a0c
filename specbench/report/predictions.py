"""The predicted speed-up beside the measured one, with what it is made of."""

from __future__ import annotations

from collections.abc import Mapping

from specbench.results.summary import Figure, Summary, SummaryRow

TITLE = "Predicted from calibration"
LEGEND = (
    "accept length / cost of a step, in plain's and timed before the run: d draft, v verify, o rest"
)
"""What the formula is made of; where steps draft nothing, their share and cost stand last.

The interval of the prediction is not shown: it holds the prompts' scatter, which the measurement
shares, and not that of the costs, so that it says nothing of the difference.
"""


def predictions(summary: Summary) -> list[str]:
    """Per temperature, concurrency and arm, over all suites; empty where nothing was predicted."""
    names = {row.suite for row in summary.rows}
    rows = [
        row
        for row in summary.rows
        if row.rule
        and "predicted_speedup" in row.figures
        and (row.suite == "all" or len(names) == 1)
    ]
    if all(row.figures["predicted_speedup"].value is None for row in rows):
        return []
    loaded = any(row.concurrency != 1 for row in rows)
    lines = [
        f"T={row.temperature:g} {row.arm}{f' c={row.concurrency}' if loaded else ''}: {_text(row)}"
        for row in rows
    ]
    return [*lines, LEGEND]


def _text(row: SummaryRow) -> str:
    figures = row.figures
    predicted, measured = figures["predicted_speedup"], figures["speedup"]
    if predicted.value is None:
        return f"n/a ({predicted.reason})"
    text = f"{predicted.value:.2f}x = {_made_of(figures)}"
    error = figures["prediction_error"].value
    if measured.value is None or error is None:
        return text
    return f"{text}, measured {measured.value:.2f}x ({round(100 * error):+d} %)"


def _made_of(figures: Mapping[str, Figure]) -> str:
    """The formula with its numbers; a share of 1 is left out, with the cost of the other steps."""
    length, share = figures["predicted_length"].value, figures["predicted_drafted"].value
    assert length is not None
    assert share is not None
    idle = _idle(figures["predicted_idle"].value)
    if f"{share:.2f}" == "0.00":
        # Where nothing was drafted, no step that drafts was timed.
        return f"{length:.2f} / {idle}"
    step = _drafting(figures)
    if f"{share:.2f}" == "1.00":
        return f"{length:.2f} / ({step})"
    return f"{length:.2f} / ({share:.2f} x ({step}) + {1 - share:.2f} x {idle})"


def _idle(cost: float | None) -> str:
    """The cost of a step without a draft; where none was timed, plain's stands for it."""
    return "1.00 as plain's" if cost is None else f"{cost:.2f}"


def _drafting(figures: Mapping[str, Figure]) -> str:
    """The cost of a step that drafts, in its parts where they are told apart."""
    parts = [(name, figures[f"predicted_{name}"].value) for name in "dvo"]
    known = [f"{name} {part:.2f}" for name, part in parts if part is not None]
    return " + ".join(known) or f"{figures['predicted_step'].value:.2f}"
