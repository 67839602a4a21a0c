"""Speed beside its price: per temperature and arm what was gained, and what the output became."""

from __future__ import annotations

from specbench.report.cells import Footnotes, Grid, number, speedup
from specbench.results.summary import DETECTED, UNSEEN, Figure, Summary, SummaryRow

TV = "TV per token [95 %], worst"


def prices(summary: Summary) -> Grid:
    """One row per temperature above 0, concurrency and arm, over all suites; empty without any."""
    rows = judged(summary)
    loaded = any(row.concurrency != 1 for row in rows)
    header = ["T", "arm", "rule", "lossless", "accept length", "speed-up [95 %]", TV, "KL nats"]
    header += ["entropy shift", "output"]
    if loaded:
        header.insert(1, "c")
    notes = Footnotes()
    lines = []
    for row in rows:
        cells = _row(row, notes)
        if loaded:
            cells.insert(1, str(row.concurrency))
        lines.append(tuple(cells))
    return Grid(tuple(header), tuple(lines), tuple(notes.notes))


def _row(row: SummaryRow, notes: Footnotes) -> list[str]:
    figures = row.figures
    return [
        f"{row.temperature:g}",
        row.arm,
        row.rule or "-",
        row.lossless,
        number(figures["accept_length"], ".2f", notes),
        speedup(figures["speedup"], notes) if row.rule else "-",
        _variation(row, notes),
        number(figures["price_kl"], ".2g", notes),
        _signed(figures["price_entropy"], notes),
        row.identity or "-",
    ]


def _signed(figure: Figure, notes: Footnotes) -> str:
    return "0" if figure.value == 0 else number(figure, "+.2g", notes)


def _variation(row: SummaryRow, notes: Footnotes) -> str:
    """Mean and worst total variation; an estimate from below says so."""
    mean, worst = row.figures["price_tv"], row.figures["price_tv_worst"]
    if mean.value is None:
        return notes.mark(mean.reason)
    if row.lossless == "proven":
        return "0 by proof"
    if not row.price_exact:
        return f"{_with_interval(mean)} estimated, at least"
    return f"{_with_interval(mean)}, {number(worst, '.2f', notes)}"


def _with_interval(figure: Figure) -> str:
    text = f"{figure.value:.3f}"
    if figure.low is not None and figure.high is not None:
        text += f" [{figure.low:.3f}, {figure.high:.3f}]"
    return text


def judged(summary: Summary) -> list[SummaryRow]:
    """The rows over all suites that the token-level tests judged."""
    names = {row.suite for row in summary.rows}
    return [
        row
        for row in summary.rows
        if row.temperature > 0 and (row.suite == "all" or len(names) == 1) and row.fidelity
    ]


def verdicts(summary: Summary) -> list[str]:
    """Per row the verdict with n, p and what it would have caught."""
    rows = judged(summary)
    loaded = any(row.concurrency != 1 for row in rows)
    return [
        f"T={row.temperature:g} {row.arm}{f' c={row.concurrency}' if loaded else ''}: {_text(row)}"
        for row in rows
    ]


def _text(row: SummaryRow) -> str:
    """A lossy arm does not fail: its difference is detected, or not yet."""
    if row.identity == "meaningless":
        return "meaningless: acceptance is made up"
    if row.identity == DETECTED:
        return f"detected, as a lossy rule should be: {row.fidelity.removeprefix('FAILED: ')}"
    if row.identity == UNSEEN:
        return f"lossy, but not detected: {row.fidelity.removeprefix('passed, ')}"
    return row.fidelity
