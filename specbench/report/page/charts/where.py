"""A map of where speculation pays: category by arm, coloured by speed-up."""

from __future__ import annotations

import math

from specbench.report.page.chart import Chart, Value, known
from specbench.report.page.measured import Measured, place

FAR = math.log(2.5)
"""Speed-up from which on a cell has its full colour."""


def where(run: Measured) -> Chart | None:
    """Speed-up per category and arm at every temperature; None where no category has a value."""
    rows = run.table
    cells = rows[
        (rows["metric"] == "speedup")
        & (rows["stat"] == "value")
        & (rows["category"] != "")
        & rows["value"].notna()
        & rows["arm"].isin(run.speculative)
    ]
    if cells.empty:
        return None
    places = [(arm, *setting) for setting in run.settings for arm in run.speculative]
    found = {
        (r["suite"], r["category"], r["arm"], r["temperature"], r["concurrency"]): r["value"]
        for r in cells.to_dict("records")
    }
    names = list(dict.fromkeys(zip(cells["suite"], cells["category"], strict=True)))
    table: list[list[Value]] = []
    shades: dict[tuple[int, int], str] = {}
    for line, (suite, category) in enumerate(names):
        row: list[Value] = [f"{suite}/{category}"]
        for column, (arm, temperature, load) in enumerate(places, start=1):
            value = found.get((suite, category, arm, temperature, load))
            row.append(known(value))
            if value is not None:
                shades[line, column] = _shade(value)
        table.append(row)
    header = ("category", *(f"{arm}, {place(t, load)}" for arm, t, load in places))
    says = "Speed-up by category: blue pays, orange costs. Few prompts stand behind each number."
    return Chart("where", "Where speculation pays", says, header, table, None, shades)


def _shade(value: float) -> str:
    """Blue above 1, orange below, stronger the further; through which letters stay readable."""
    strength = min(1.0, abs(math.log(value)) / FAR) if value > 0 else 1.0
    red, green, blue = (0, 114, 178) if value >= 1 else (230, 120, 0)
    return f"rgba({red},{green},{blue},{0.08 + 0.42 * strength:.2f})"
