"""The section of docs/comparing.md on imports: every figure that a reader knows."""

from __future__ import annotations

from specbench.cli.rows import markdown
from specbench.results.foreign.formats import FORMATS


def import_formats() -> str:
    """Format by format: its file, where its meanings were read, and what becomes of its figures."""
    parts = []
    for one in FORMATS.values():
        rows = [
            {
                "figure": f"`{meaning.field}`",
                "what the tool means": meaning.text,
                "here": f"`{meaning.metric}`" if meaning.metric else "refused",
                "how": meaning.how,
            }
            for meaning in one.meanings
        ]
        parts += [f"**`{one.name}`**: {one.tool}, {one.file}. Read from {one.source}.", ""]
        parts += [markdown(rows), ""]
    return "\n".join(parts).strip()
