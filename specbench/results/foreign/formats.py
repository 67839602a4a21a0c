"""All formats that are read; a new one is one file and one line here."""

from __future__ import annotations

from specbench.catalog import nearest
from specbench.errors import UsageError
from specbench.results.foreign import aiperf, spec_bench, specforge, specforge_eagle3, vllm_bench
from specbench.results.foreign.document import Document
from specbench.results.foreign.format import Format
from specbench.results.schema import ResultError

FORMATS: dict[str, Format] = {
    one.name: one
    for one in (
        spec_bench.FORMAT,
        vllm_bench.FORMAT,
        specforge.FORMAT,
        specforge_eagle3.FORMAT,
        aiperf.FORMAT,
    )
}
"""Name -> format."""

AUTO = "auto"


def format_of(document: Document, name: str = AUTO) -> Format:
    """The format of a document; by its content unless it is named.

    Raises:
        UsageError: no format of that name.
        ResultError: no format fits.
    """
    if name != AUTO:
        if name not in FORMATS:
            raise UsageError(f"unknown format {name!r}", nearest(name, list(FORMATS)))
        return FORMATS[name]
    for one in FORMATS.values():
        if one.recognise(document):
            return one
    known = "; ".join(f"{one.name}: {one.file}" for one in FORMATS.values())
    keys = ", ".join(list(document.objects[0])[:6]) or "none"
    raise ResultError(
        f"{document.place}: of no format that is known here (its keys begin with {keys})",
        f"name one with --from, or write another file; {known}",
    )
