"""items.csv as a table: checked, with one row per record."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from specbench.results.items import COLUMNS, SCORES, csv_text, item_rows
from specbench.results.read import Recorded
from specbench.results.schema import ResultError
from specbench.results.store import RunFolder

KEY = ["suite", "item", "turn", "temperature", "repeat", "concurrency"]
"""Columns that name a request; what is compared is joined on them, never on row numbers."""
STEP_COUNTS = ["steps", "proposed", "verified", "judged", "accepted", "committed"]
"""What an engine that decodes the same does the same, whatever else the machine does."""
TEXT = {
    *("suite", "item", "category", "split", "arm", "unit", "finish", "error", "cut"),
    *("scored_by", "prompt_sha256", "settings_sha256", "output_sha256", "trace_sha256"),
}
NUMBERS = [name for name in COLUMNS if name not in TEXT]
TEXT_TYPES = dict.fromkeys(TEXT, object)
NUMBER_TYPES = dict.fromkeys(NUMBERS, np.float64)


def read_rows(folder: RunFolder) -> pd.DataFrame:
    """All records of a run; numbers are float64, NaN where items.csv says nothing.

    Raises:
        ResultError: there is no items.csv, or one that specbench did not write; how to get it back.
    """
    hint = f"make it again from the traces: specbench rescore {folder.path}"
    if not folder.items.is_file():
        raise ResultError(f"{folder.items} is not there: the run was not finished", hint)
    rows = _parsed(lambda: folder.items, folder.items, hint)
    names = [*KEY, "arm"]
    if (twice := rows[rows.duplicated(names)]).size:
        place = ", ".join(f"{name} {twice.iloc[0][name]}" for name in names)
        raise ResultError(f"{folder.items}: a record is there twice: {place}", hint)
    return rows


def rows_of(recorded: Recorded) -> pd.DataFrame:
    """The same of what is on disk so far, before there is an items.csv."""
    text = csv_text(COLUMNS, item_rows(recorded))
    return _parsed(lambda: io.StringIO(text), Path(recorded.manifest.run), "")


def _parsed(source: Callable[[], Path | io.StringIO], path: Path, hint: str) -> pd.DataFrame:
    """A table with numbers as float64 and texts as objects; ``path`` is what errors name."""
    try:
        try:
            rows = _read(source(), TEXT_TYPES | NUMBER_TYPES)
        except ValueError:
            # One of them is no number: which one is looked for below.
            rows = _read(source(), TEXT_TYPES)
    except (OSError, ValueError) as error:
        raise ResultError(f"{path}: cannot be read: {error}", hint) from error
    _require_columns(rows, path, hint)
    for name in SCORES:
        if name not in rows:
            rows[name] = "" if name in TEXT else float("nan")
    numbers = rows[NUMBERS]
    typed = all(dtype == np.float64 for dtype in numbers.dtypes)
    if typed and not np.isinf(numbers.to_numpy()).any():
        return rows
    return rows.assign(**{name: _number(rows[name], name, path, hint) for name in NUMBERS})


def _read(source: Path | io.StringIO, types: Mapping[str, Any]) -> pd.DataFrame:
    """Empty texts are texts, and empty cells of other columns unknown."""
    unknown = {name: [""] for name in NUMBERS}
    return pd.read_csv(source, dtype=dict(types), keep_default_na=False, na_values=unknown)


def _require_columns(rows: pd.DataFrame, path: Path, hint: str) -> None:
    # Files from before answers were scored there are whole without.
    lacking = [name for name in COLUMNS if name not in rows.columns and name not in SCORES]
    if lacking:
        some = ", ".join(lacking[:3])
        raise ResultError(
            f"{path} lacks {len(lacking)} columns, among them {some}: it is of an older specbench, "
            "or of another program",
            hint,
        )


def _number(column: pd.Series[float], name: str, path: Path, hint: str) -> pd.Series[float]:
    found = pd.to_numeric(column, errors="coerce")
    wrong = found.isna() & column.notna()
    infinite = found.abs() == float("inf")
    if (bad := wrong | infinite).any():
        place = int(bad.to_numpy().argmax())
        raise ResultError(
            f"{path}, line {place + 2}: {name} = {column.iloc[place]} is no number", hint
        )
    return found.astype("float64")
