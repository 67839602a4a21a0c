"""A sweep as tables: who was how fast at which load, by context, and what is recommended."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from specbench.core.arm import PLAIN
from specbench.report.cells import SPEEDUP, Footnotes, Grid, footnoted, number, speedup
from specbench.report.console import grid_table
from specbench.report.markdown import table_lines
from specbench.results.items import csv_text
from specbench.results.summary import Figure
from specbench.results.sweep.summary import Standing, SweepSummary

DEV = (
    "tokens/s and accept length of each candidate are of the last dev run that measured it; "
    "speed-ups are paired with plain on the same prompts. Only what the test split confirmed is "
    "recommended"
)
CSV = (
    *("load", "candidate", "k", "nodes", "step", "prompts", "state", "recommended"),
    *("speedup", "speedup_low", "speedup_high", "predicted_speedup", "accept_length"),
    *("tokens_per_s_user", "tokens_per_s_device", "attainment", "goodput"),
)


def sweep_grid(summary: SweepSummary) -> Grid:
    """One row per load and candidate."""
    notes = Footnotes()
    slo, guessed = bool(summary.asked.objectives), _has(summary, "predicted")
    header = (
        *("load", "candidate", "K", "prompts", "accept length", "tok/s user", "tok/s device"),
        SPEEDUP,
        *(["predicted"] if guessed else []),
        *(["keep SLO", "goodput 1/s"] if slo else []),
        "what became of it",
    )
    rows = tuple(
        (
            str(one.load),
            one.name,
            str(one.k) if one.name != PLAIN else "-",
            str(one.prompts) if one.prompts else "-",
            _cell(one, "accept_length", ".2f", notes),
            _cell(one, "tokens_per_s_user", ".1f", notes),
            _cell(one, "tokens_per_s_device", ".1f", notes),
            _speedup(one, notes),
            *([_cell(one, "predicted", ".2f", notes)] if guessed else []),
            *([_cell(one, "attainment", ".0%", notes)] if slo else []),
            *([_cell(one, "goodput", ".2f", notes)] if slo else []),
            one.state,
        )
        for one in summary.standings
    )
    return Grid(header, rows, tuple(notes.notes), (DEV,))


def context_grid(summary: SweepSummary) -> Grid:
    """One row per load and length of prompts; empty where all prompts are of one length."""
    notes = Footnotes()
    header = ("load", "context", "prompts", "best", "against plain [95 %]", "decided")
    rows = tuple(
        (
            str(one.load),
            one.context,
            str(one.prompts),
            one.best if one.decided else f"undecided ({one.best} ahead)",
            speedup(one.times_plain, notes) if one.best != PLAIN else "-",
            "yes" if one.decided else one.why,
        )
        for one in summary.contexts
    )
    remark = "by context: decode time per token of the requests, in the last rung of each load"
    return Grid(header, rows, tuple(notes.notes), (remark,))


def answers(summary: SweepSummary) -> list[str]:
    """One sentence per load, and from where on speculation does not pay."""
    lines = [one.sentence for one in summary.recommended]
    if summary.complete and len(summary.recommended) > 1:
        lines.append(_border(summary))
    return lines


def _border(summary: SweepSummary) -> str:
    if summary.stops is None:
        return "Speculation pays at the highest load that was measured."
    if summary.stops == summary.recommended[0].load:
        return "Speculation was not shown to pay at any load."
    return f"From load {summary.stops} on speculation was not shown to pay."


def heading(summary: SweepSummary) -> str:
    """Title, target and loads in one line."""
    loads = ", ".join(map(str, summary.asked.loads))
    place = f", {summary.device}" if summary.device else ""
    return (
        f"{summary.title}: {summary.target}, T = {summary.temperature:g}, load {loads}{place}, "
        f"sweep {summary.sweep}"
    )


def asked(summary: SweepSummary) -> list[str]:
    """What was asked for, and how far it has come."""
    lines = [f"requests keep {', '.join(map(str, summary.asked.objectives))}"]
    lines = lines if summary.asked.objectives else []
    waiting = len(summary.asked.loads) - len(summary.recommended)
    if waiting:
        lines.append(f"INCOMPLETE: {waiting} of {len(summary.asked.loads)} loads are not answered")
    return lines


def courses(summary: SweepSummary) -> list[str]:
    """What every run decided."""
    lines = []
    for step in summary.steps:
        text = f"load {step.load}, {step.title} ({step.prompts} {step.split} prompts, {step.run}): "
        said = [f"{step.leader} leads"] if step.leader else []
        said += [f"{arm} out, {why}" for arm, why in step.dropped.items()]
        said += [step.decided] if step.decided else []
        lines.append(text + ("; ".join(said) or f"measured {', '.join(step.arms)}"))
    return lines


def sweep_markdown(summary: SweepSummary) -> str:
    """The whole sweep."""
    table, contexts = sweep_grid(summary), context_grid(summary)
    parts = [f"# {heading(summary)}", "", *(f"- {line}" for line in asked(summary))]
    parts += [*(f"- {line}" for line in answers(summary)), "", *table_lines(table), ""]
    parts += [f"- {line}" for line in (*table.remarks, *footnoted(table))]
    if contexts.rows:
        parts += ["", "## By context", "", *table_lines(contexts), ""]
        parts += [f"- {line}" for line in (*contexts.remarks, *footnoted(contexts))]
    parts += ["", "## How it was decided", "", *(f"- {line}" for line in courses(summary))]
    if summary.warnings:
        parts += ["", "## Warnings", "", *(f"- {line}" for line in summary.warnings)]
    return "\n".join(parts) + "\n"


def sweep_csv(summary: SweepSummary) -> str:
    """One row per load and candidate, nothing rounded; empty where there is no value."""
    chosen = {one.load: one.name for one in summary.recommended}
    return csv_text(CSV, [[*_record(one, chosen)] for one in summary.standings])


def _record(one: Standing, chosen: dict[int, str]) -> Iterator[str]:
    yield from (str(one.load), one.name, str(one.k), "" if one.nodes is None else str(one.nodes))
    yield from (one.step, str(one.prompts), one.state)
    yield "yes" if chosen.get(one.load) == one.name else ""
    speed = one.figures.get("speedup", Figure(None, "x"))
    yield from (_plain(speed.value), _plain(speed.low), _plain(speed.high))
    for name in ("predicted", *CSV[CSV.index("accept_length") :]):
        yield _plain(one.figures[name].value if name in one.figures else None)


def _plain(value: float | None) -> str:
    return "" if value is None else repr(value)


def _has(summary: SweepSummary, figure: str) -> bool:
    return any(figure in one.figures for one in summary.standings)


def _cell(one: Standing, name: str, form: str, notes: Footnotes) -> str:
    return number(one.figures[name], form, notes) if name in one.figures else "-"


def _speedup(one: Standing, notes: Footnotes) -> str:
    if one.name == PLAIN or "speedup" not in one.figures:
        return "-"
    return speedup(one.figures["speedup"], notes)


class SweepTable:
    """A rich renderable of a sweep."""

    def __init__(self, summary: SweepSummary, path: str) -> None:
        self._summary = summary
        self._path = path

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Heading, table, contexts, answers, warnings, path."""
        summary = self._summary
        yield Text(heading(summary), style="bold")
        for line in asked(summary):
            yield Text(line, style="" if summary.complete else "bold red")
        for table in (sweep_grid(summary), context_grid(summary)):
            if table.rows:
                yield grid_table(table)
                for line in (*table.remarks, *footnoted(table)):
                    yield Text(line)
        for line in answers(summary):
            yield Text(line, style="bold")
        for index, line in enumerate(summary.warnings):
            yield Text(f"{'' if index else chr(10) + '! warnings:' + chr(10)}  {line}")
        yield Text(f"\n{self._path}")
