"""Cells of the summary table as text: a value, n/a with a footnote, or 0, never confused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from specbench.core.manifest import UNQUANTISED
from specbench.core.request import GREEDY_BELOW
from specbench.results.summary import Figure, Summary, SummaryRow
from specbench.results.verdict import RUN_WIDE

SPEEDUP = "speed-up [95 %]"
"""Header of the column that must stay on one line."""


@dataclass(slots=True)
class Footnotes:
    """Numbered reasons for ``n/a``; equal reasons share a number."""

    notes: list[str] = field(default_factory=list)

    def mark(self, reason: str) -> str:
        """``n/a`` with the number of its reason."""
        return f"n/a{self.number(reason)}"

    def number(self, reason: str) -> str:
        """The number of a note, in brackets."""
        if reason not in self.notes:
            self.notes.append(reason)
        return f"[{self.notes.index(reason) + 1}]"


@dataclass(frozen=True, slots=True)
class Grid:
    """The summary table as text; ``remarks`` are whole lines that belong below it."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    footnotes: tuple[str, ...]
    remarks: tuple[str, ...] = ()


def grid(summary: Summary) -> Grid:
    """One row per cell.

    The concurrency is shown where there is more than 1 to tell apart, the rule where the names of
    the arms do not already say it.
    """
    notes = Footnotes()
    header, rows = summary_rows(summary, notes)
    loaded = any(row.concurrency != 1 for row in summary.rows)
    named = all(_says(row.arm, row.rule) for row in summary.rows)
    kept = [
        place
        for place, name in enumerate(header)
        if (name != "c" or loaded) and (name != "rule" or not named)
    ]
    return Grid(
        tuple(header[place] for place in kept),
        tuple(tuple(row[place] for place in kept) for row in rows),
        tuple(notes.notes),
        summary.acceptance,
    )


HEADER = (
    *("suite", "T", "c", "arm", "accept length", "accept rate", "ITL p50/p99 ms", "TTFT ms"),
    *("tok/s", SPEEDUP, "output", "rule", "lossless"),
)


def summary_rows(
    summary: Summary, notes: Footnotes
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """All columns: their names, and one row per cell."""
    return HEADER, [tuple(_row(row, notes)) for row in summary.rows]


def footnoted(table: Grid) -> list[str]:
    """The footnotes with their numbers."""
    return [f"[{number}] {text}" for number, text in enumerate(table.footnotes, 1)]


def _row(row: SummaryRow, notes: Footnotes) -> list[str]:
    figures = row.figures
    median, tail = figures["itl_p50"], figures["itl_p99"]
    speed = figures["tokens_per_s" if row.concurrency == 1 else "tokens_per_s_device"]
    return [
        row.suite,
        f"{row.temperature:g}",
        str(row.concurrency),
        f"{row.arm} !" if set(row.guards) - RUN_WIDE else row.arm,
        _accept_length(row, notes),
        number(figures["accept_rate"], ".2f", notes),
        f"{_short(median.value)}/{_short(tail.value)}"
        if median.value is not None and tail.value is not None
        else notes.mark(median.reason or tail.reason),
        number(figures["ttft"], ".0f", notes),
        number(speed, ".1f", notes),
        speedup(figures["speedup"], notes),
        _output(row, notes),
        row.rule or "-",
        _lossless(row),
    ]


def _output(row: SummaryRow, notes: Footnotes) -> str:
    """The verdict in a word; why there is none where tokens were sampled and nobody can tell."""
    sampled = row.temperature >= GREEDY_BELOW and row.prompts > 0
    if row.identity or row.fidelity or row.lossless == "meaningless" or not sampled:
        return row.identity or "-"
    return notes.mark(UNJUDGED)


UNJUDGED = (
    "no target probabilities: specbench fidelity RUN --reference MODEL or server:URL judges them"
)


def _accept_length(row: SummaryRow, notes: Footnotes) -> str:
    """The accept length; that of drafted steps where only these were counted, and named so."""
    drafted = row.figures.get("accept_length_drafted")
    if row.figures["accept_length"].value is None and drafted and drafted.value is not None:
        return f"{drafted.value:.2f} {notes.number(DRAFTED_ONLY)}"
    return number(row.figures["accept_length"], ".2f", notes)


DRAFTED_ONLY = (
    "accept_length_drafted: over steps that had a draft, the only ones that the engine counts"
)


def _says(arm: str, rule: str) -> bool:
    """Whether an arm's name gives its rule, as in ``typical`` or ``ngram-typical``."""
    name = rule.partition("(")[0]
    return not name or arm == name or arm.endswith(f"-{name}")


def _lossless(row: SummaryRow) -> str:
    """What is known of the rule; a lossy one with its mean total variation per token."""
    price = row.figures.get("price_tv")
    if row.lossless == "lossy" and price is not None and price.value is not None:
        return f"lossy {price.value:.3f}"
    return row.lossless


def _short(value: float) -> str:
    return f"{value:.1f}" if value < 100 else f"{value:.0f}"


def number(figure: Figure, form: str, notes: Footnotes) -> str:
    """A value in the given form, or ``n/a`` with its reason."""
    return notes.mark(figure.reason) if figure.value is None else format(figure.value, form)


def speedup(figure: Figure, notes: Footnotes) -> str:
    """A speed-up with its interval; a slow-down says so in words."""
    if figure.value is None:
        return notes.mark(figure.reason)
    text = f"{figure.value:.2f}x"
    if figure.low is not None and figure.high is not None:
        text += f" [{figure.low:.2f}, {figure.high:.2f}]"
    return f"{text} slower" if figure.value < 1 else text


def heading(summary: Summary) -> str:
    """Title, target and state of the run in one line."""
    stored = "" if summary.quant == UNQUANTISED else f" with {summary.quant} weights"
    return (
        f"{summary.title}: {summary.target}, {summary.dtype}{stored}, {summary.device}, "
        f"run {summary.run}"
    )


def state(summary: Summary) -> str:
    """How many requests ended how; empty words are left out, an incomplete run says so."""
    counts = [f"{summary.ok} of {summary.planned} requests done"]
    counts += [
        f"{count} {word}"
        for count, word in (
            (summary.failed, "failed"),
            (summary.skipped, "skipped"),
            (summary.missing, "missing"),
        )
        if count
    ]
    text = f"{summary.conversations} conversations, {', '.join(counts)}"
    if summary.resumes:
        text += f", resumed {summary.resumes} times"
    if summary.stopped:
        text += f", stopped early: {summary.stopped}"
    return text if summary.complete else f"INCOMPLETE, not to be ranked: {text}"


def loops(summary: Summary) -> list[str]:
    """Figures without looping outputs, where some loop."""
    lines = []
    for row in summary.rows:
        share, sound = row.figures["degenerate_share"].value, row.figures["speedup_sound"]
        length = row.figures["accept_length_sound"]
        if share and sound.value is not None and length.value is not None:
            lines.append(
                f"{row.suite} T={row.temperature:g} {row.arm}: accept length {length.value:.2f}, "
                f"speed-up {speedup(sound, Footnotes())} without the {share:.0%} looping outputs"
            )
    return lines


def identities(summary: Summary) -> list[str]:
    """Outputs that are not identical to plain's at temperature 0, item by item."""
    return [
        f"{row.suite} {row.arm}: {row.identity_detail}"
        for row in summary.rows
        if row.identity_detail and row.suite != "all"
    ]


def first_tokens(summary: Summary) -> list[str]:
    """What drafting costs before the first token, over all suites."""
    names = {row.suite for row in summary.rows}
    lines = []
    for row in summary.rows:
        figure = row.figures["ttft_overhead"]
        if figure.value is not None and (row.suite == "all" or len(names) == 1):
            text = f"T={row.temperature:g} {row.arm}: {figure.value:+.1f} ms"
            if figure.low is not None and figure.high is not None:
                text += f" [{figure.low:+.1f}, {figure.high:+.1f}]"
            lines.append(text)
    return lines


def memory(summary: Summary) -> list[str]:
    """Weights and KV bytes per token of each arm whose engine tells, in words."""
    return [
        f"{arm}: {', '.join(_held(held))}"
        for arm, held in summary.memory.items()
        if any(size is not None for size in held.values())
    ]


def _held(held: Mapping[str, int | None]) -> list[str]:
    words = {
        "target_weights": "target weights",
        "draft_weights": "draft weights",
        "target_kv_per_token": "target KV per token",
        "draft_kv_per_token": "draft KV per token",
        "peak": "peak",
    }
    # Most drafters keep nothing between requests, and older runs do not say.
    if held.get("draft_state"):
        words["draft_state"] = "kept between requests"
    return [f"{text} {_bytes(held.get(name))}" for name, text in words.items()]


def _bytes(count: int | None) -> str:
    if count is None:
        return "n/a"
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"
