"""Imported figures as a table, with what they mean and what was refused; never among ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from specbench.report.cells import Grid
from specbench.report.markdown import table_lines
from specbench.results.foreign.imported import HASH_DIGITS, Imported, ImportedRow

NOT_RANKED = "Imported, not ranked"
WHY = "Figures of other tools, converted to the definitions named here. specbench did not measure "
WHY += "them: other prompts, machines and settings, so that they stand apart from every rank."
HEADER = ("arm", "suite", "category", "metric", "statistic", "value", "unit", "n", "from")
BOARD = ("arm", "tool", "suite", "metric", "statistic", "value", "unit", "n", "file", "sha256")


def imported_heading(found: Imported) -> str:
    """Which file this is, marked as no measurement of specbench."""
    return (
        f"IMPORTED, not measured by specbench: {found.name}, {found.tool}, {found.file} "
        f"(sha256 {found.sha256[:HASH_DIGITS]})"
    )


def imported_grid(found: Imported) -> Grid:
    """Its rows; ``remarks`` says what they mean, what was refused and what to know."""
    rows = tuple(
        (
            *(row.arm, row.suite or "-", row.category or "all", row.definition, row.stat),
            *(figure(row), row.unit, f"{row.n} {row.counted}", row.field),
        )
        for row in found.rows
    )
    # Categories are worth a column where there is one to tell apart.
    kept = [
        place
        for place, name in enumerate(HEADER)
        if name != "category" or any(row.category for row in found.rows)
    ]
    return Grid(
        tuple(HEADER[place] for place in kept),
        tuple(tuple(row[place] for place in kept) for row in rows),
        (),
        tuple(_remarks(found)),
    )


def _remarks(found: Imported) -> Iterator[str]:
    yield from conditions(found)
    for meaning in found.meanings:
        if meaning.metric:
            yield f"{meaning.field}: {meaning.text}; {meaning.metric}: {meaning.how}"
    for refused in found.refused:
        yield f"refused: {refused.field}: {refused.reason}"
    for note in found.notes:
        yield f"note: {note}"
    for label in found.outdated:
        yield f"note: {label} is no longer the definition in use: import the file again"


def conditions(found: Imported) -> list[str]:
    """What the file says of the measurement, and the longest draft."""
    facts = [f"{name} {value}" for name, value in found.conditions.items()]
    facts += [] if found.k is None else [f"K {found.k}"]
    return [f"as the file says: {', '.join(facts)}"] if facts else []


def figure(row: ImportedRow) -> str:
    """The value, or the bounds that it surely lies between."""
    if row.value is not None:
        return f"{row.value:.4g}"
    return f"{row.low:.4g} to {row.high:.4g}"


def imported_markdown(found: Imported) -> str:
    """The whole import."""
    table = imported_grid(found)
    lines = [f"# {imported_heading(found)}", "", *table_lines(table), ""]
    return "\n".join([*lines, *(f"- {line}" for line in table.remarks)]) + "\n"


def imported_records(found: Imported) -> Iterator[dict[str, object]]:
    """One row per figure, nothing rounded; refused figures with their reason."""
    whole = {
        "imported": True,
        "name": found.name,
        "tool": found.tool,
        "file": found.file,
        "file_sha256": found.sha256,
    }
    meanings = {meaning.field: meaning for meaning in found.meanings}
    for row in found.rows:
        meaning = meanings[row.field]
        yield whole | {
            "arm": row.arm,
            "suite": row.suite,
            "category": row.category,
            "metric": row.metric,
            "definition": row.definition,
            "stat": row.stat,
            "value": row.value,
            "low": row.low,
            "high": row.high,
            "unit": row.unit,
            "n": row.n,
            "counted": row.counted,
            "k": found.k,
            "field": row.field,
            "meaning": f"{meaning.text}; {meaning.how}",
        }
    for refused in found.refused:
        yield whole | {"arm": found.arm, "field": refused.field, "refused": refused.reason}


def board_of_imports(found: Sequence[Imported]) -> Grid:
    """Figures over all categories of several imports, for a leaderboard's own block."""
    rows = tuple(
        (
            *(row.arm, one.tool, row.suite or "-", row.definition, row.stat, figure(row)),
            *(row.unit, f"{row.n} {row.counted}", one.file, one.sha256[:HASH_DIGITS]),
        )
        for one in found
        for row in one.rows
        if not row.category
    )
    return Grid(BOARD, rows, ())
