"""A comparison as rows, and as text for a terminal or a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from specbench.core.quantity import Quantity
from specbench.report.cells import Grid
from specbench.report.markdown import table_lines
from specbench.results.compare.compare import Compared
from specbench.results.compare.verdict import Judged, Verdict

HEADER = ("T", "c", "group", "measure", "base", "new", "change [95 %]", "p", "verdict")
DIGITS = {"x": ".2f", "1": ".3f", "ms": ".3g", "1/s": ".1f", "tokens/step": ".3f", "points": ".1f"}
"""Unit -> how a value is shown."""


def records(compared: Compared) -> Iterator[dict[str, object]]:
    """One row per measure and group, nothing rounded; None where there is no value."""
    for part in compared.parts:
        place: dict[str, object] = {
            "base": compared.base,
            "new": compared.new,
            "temperature": part.group.temperature,
            "concurrency": part.group.concurrency,
            "group": part.group.name,
        }
        for judged in part.judged:
            yield place | _record(judged)
        if (found := part.fidelity) is not None:
            yield place | {
                "measure": "fidelity",
                "base_value": found.base,
                "new_value": found.new,
                "verdict": str(found.verdict),
            }


def _record(judged: Judged) -> dict[str, object]:
    one = judged.contrast
    return {
        "measure": one.measure,
        "base_value": _value(one.base),
        "new_value": _value(one.new),
        "unit": one.base.unit,
        "ratio": _value(one.ratio) if one.neutral else None,
        "difference": None if one.neutral else _value(one.ratio),
        "low": one.ratio.low,
        "high": one.ratio.high,
        "n": one.ratio.n,
        "p": one.p,
        "p_adjusted": judged.p,
        "detectable": _value(one.detectable),
        "verdict": str(judged.verdict),
        "why": judged.why,
        "method": one.ratio.method,
    }


def _value(quantity: Quantity) -> float | None:
    return quantity.number() if quantity.known else None


def compared_grid(compared: Compared) -> Grid:
    """The table of one pair; reasons and notes are its remarks."""
    rows, remarks = list[tuple[str, ...]](), dict[str, None]()
    for part in compared.parts:
        group = part.group
        place = (f"{group.temperature:g}", str(group.concurrency), group.name)
        for judged in part.judged:
            rows.append((*place, *_cells(judged)))
            if judged.why:
                remarks[f"{judged.verdict}: {judged.contrast.measure}: {judged.why}"] = None
        if (found := part.fidelity) is not None:
            told = (found.base, found.new, "", "", str(found.verdict))
            rows.append((*place, "fidelity", *told))
    loaded = any(row[1] != "1" for row in rows)
    kept = [place for place, name in enumerate(HEADER) if name != "c" or loaded]
    return Grid(
        tuple(HEADER[place] for place in kept),
        tuple(tuple(row[place] for place in kept) for row in rows),
        (),
        (*remarks, *compared.notes),
    )


def _cells(judged: Judged) -> tuple[str, ...]:
    one = judged.contrast
    spec = DIGITS[one.base.unit]
    return (
        one.measure,
        format(one.base.number(), spec) if one.base.known else "-",
        format(one.new.number(), spec) if one.new.known else "-",
        change(one.ratio) if one.neutral else _difference(one.ratio),
        "" if judged.p is None else f"{judged.p:.2g}",
        _told(judged),
    )


def change(ratio: Quantity) -> str:
    """A ratio new / base as a relative change: +4.2 % [+1.0, +7.5]."""
    if not ratio.known:
        return "-"
    value = f"{100 * (ratio.number() - 1):+.1f} %"
    if ratio.low is None or ratio.high is None:
        return value
    return f"{value} [{100 * (ratio.low - 1):+.1f}, {100 * (ratio.high - 1):+.1f}]"


def _difference(gap: Quantity) -> str:
    """Scores new - base: +1.2 points [-0.4, +2.8]; shares in percentage points."""
    if not gap.known:
        return "-"
    scale, unit = (1.0, "points") if gap.unit == "points" else (100.0, "pp")
    value = f"{scale * gap.number():+.1f} {unit}"
    if gap.low is None or gap.high is None:
        return value
    return f"{value} [{scale * gap.low:+.1f}, {scale * gap.high:+.1f}]"


def _told(judged: Judged) -> str:
    """The verdict; where nothing was shown, what this many prompts could have shown."""
    power = judged.contrast.detectable
    if judged.verdict is Verdict.NO_DIFFERENCE and power.known:
        scale, unit = (1.0, "points") if power.unit == "points" else (100.0, "pp")
        unit = "%" if judged.contrast.neutral else unit
        return f"{judged.verdict} (of {scale * power.number():.1f} {unit} or more)"
    return str(judged.verdict)


def heading(compared: Compared) -> str:
    """What was held against what."""
    return f"{compared.new} against {compared.base}, {compared.requests} requests of both"


def compared_markdown(found: Sequence[Compared]) -> str:
    """All pairs below each other."""
    return "\n\n".join(map(_page, found))


def _page(one: Compared) -> str:
    table = compared_grid(one)
    below = ["", *(f"- {line}" for line in table.remarks)] if table.remarks else []
    return "\n".join([f"### {heading(one)}", "", *table_lines(table), *below])
