"""What measured the same stands in one table; entries as cells and as records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from specbench.report.cells import Grid
from specbench.report.imported import NOT_RANKED, imported_records
from specbench.results.definitions import DEFINITIONS
from specbench.results.foreign.imported import Imported
from specbench.results.leaderboard.entries import DIGITS, Entry
from specbench.results.leaderboard.rank import Ranked, places, rank

HEADER = (
    *("rank", "arm", "engine", "speed-up [95 %]", "accept length", "K", "draft", "weights"),
    *("trained on", "rule", "output", "prompts", "run", "date", "files"),
)


@dataclass(frozen=True, slots=True)
class Board:
    """Entries that measured the same.

    Attributes:
        title: what they measured.
        lossless, lossy: ranked, apart.
        unranked: the rest, with their reasons.
    """

    title: str
    lossless: tuple[Ranked, ...]
    lossy: tuple[Ranked, ...]
    unranked: tuple[Entry, ...]


def boards(found: Sequence[Entry]) -> list[Board]:
    """One per identity, temperature and load, those with most entries first."""
    made = []
    for entries in places(found).values():
        good = [entry for entry in entries if not entry.reasons]
        made.append(
            Board(
                _title(entries[0]),
                tuple(rank([entry for entry in good if not entry.lossy])),
                tuple(rank([entry for entry in good if entry.lossy])),
                tuple(entry for entry in entries if entry.reasons),
            )
        )
    return sorted(made, key=lambda board: -len(board.lossless))


def _title(entry: Entry) -> str:
    identity, row = entry.manifest.identity, entry.row
    quant = "" if identity.quant == "none" else f", {identity.quant}"
    suites = ", ".join(sorted(identity.suites))
    load = "" if row.concurrency == 1 else f", load {row.concurrency}"
    return (
        f"{identity.target}, {identity.dtype}{quant}, {identity.device}: {suites}, "
        f"{identity.max_new_tokens} tokens, T = {row.temperature:g}{load}"
    )


def board_grid(ranked: Sequence[Ranked]) -> Grid:
    """The ranked entries as a table."""
    return Grid(HEADER, tuple(tuple(_cells(one)) for one in ranked), ())


def _cells(ranked: Ranked) -> Iterator[str]:
    entry = ranked.entry
    arm, figure = entry.manifest.arm(entry.row.arm), entry.speedup
    yield f"{ranked.rank}{'=' if ranked.tied else ''}"
    yield entry.row.arm
    yield arm.engine
    yield f"{figure.value:.2f}x [{figure.low:.2f}, {figure.high:.2f}]"
    length = entry.accept_length.value
    yield "-" if length is None else f"{length:.2f}"
    yield f"{arm.k}"
    yield arm.drafter if arm.tree == "chain" else f"{arm.drafter}, {arm.tree}"
    yield "-" if not entry.draft_bytes else f"{entry.draft_bytes / 1e6:.1f} MB"
    yield entry.training_data or "-"
    yield arm.rule_label
    yield entry.row.identity or "-"
    yield f"{figure.n} of {entry.row.prompts}"
    yield entry.manifest.run
    yield entry.manifest.created[:10]
    yield entry.files[:DIGITS]


LOSSY = "Lossy rules: their speed has a price, see `specbench show`"
_LENGTH = DEFINITIONS["accept_length"]
NOTES = (
    "Ranked by measured speed-up over plain decoding of the same requests, without looping outputs",
    "where some loop. Entries of one rank (=) are not told apart by a paired comparison. Accept",
    f"length: {_LENGTH.label}, {_LENGTH.text}.",
    "K is the longest draft; who made the run chose it, or a sweep whose own steps are not ranked.",
    "Hashes are of items.csv and traces.jsonl.",
)


def unranked_lines(board: Board) -> Iterator[str]:
    """Entries that are not ranked, with the reasons."""
    for entry in board.unranked:
        figure = entry.speedup
        value = "" if figure.value is None else f" ({figure.value:.2f}x)"
        yield f"{entry.row.arm}{value}, {entry.manifest.run}: {'; '.join(entry.reasons)}"


def records(
    made: Sequence[Board], imported: Sequence[Imported] = ()
) -> Iterator[dict[str, object]]:
    """One row per entry, ranked or not, then one per imported figure; nothing rounded."""
    for board in made:
        for block, ranked in (("lossless", board.lossless), ("lossy", board.lossy)):
            for one in ranked:
                yield {"board": board.title, "block": block, "rank": one.rank, "tied": one.tied} | (
                    _record(one.entry)
                )
        for entry in board.unranked:
            yield {"board": board.title, "block": "not ranked", "rank": None, "tied": None} | (
                _record(entry)
            )
    for found in imported:
        place = {"board": found.tool, "block": NOT_RANKED.lower(), "rank": None, "tied": None}
        yield from (place | record for record in imported_records(found))


def _record(entry: Entry) -> dict[str, object]:
    arm, row, figure = entry.manifest.arm(entry.row.arm), entry.row, entry.speedup
    return {
        "arm": row.arm,
        "speedup": figure.value,
        "low": figure.low,
        "high": figure.high,
        "prompts": figure.n,
        "accept_length": entry.accept_length.value,
        "accept_length_definition": _LENGTH.label,
        "engine": arm.engine,
        "drafter": arm.drafter,
        "k": arm.k,
        "k_chosen": entry.chosen,
        "tree": arm.tree,
        "draft_bytes": entry.draft_bytes,
        "training_data": entry.training_data,
        "rule": arm.rule_label,
        "lossless": row.lossless,
        "output": row.identity,
        "temperature": row.temperature,
        "concurrency": row.concurrency,
        "run": entry.manifest.run,
        "created": entry.manifest.created,
        "files_sha256": entry.files,
        "reasons": "; ".join(entry.reasons),
    }
