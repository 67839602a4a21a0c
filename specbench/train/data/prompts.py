"""All prompts of a recipe: from their sources, without those that are evaluated on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from specbench.errors import UsageError
from specbench.train.data.asked import Asked
from specbench.train.data.excluded import EVALUATED, Excluded
from specbench.train.data.records import Records, read_records
from specbench.train.data.sources import KEYS, Record, Sources, Tell
from specbench.train.data.target_answers import Answering
from specbench.train.recipe.data import Data

FILE = "prompts.jsonl"


@dataclass(frozen=True, slots=True)
class Collected:
    """Prompts, and why others were left out: reason -> how many."""

    prompts: list[Asked]
    left_out: Counter[str]


def collect(
    data: Data,
    folder: Path,
    target: Callable[[], Answering],
    tell: Tell,
    judged: Sequence[str] = (),
) -> Collected:
    """Make ``prompts.jsonl``; prompts that it holds already are not made again.

    The file keeps what other recipes of the same folder asked for; it is not returned.

    Args:
        data: the recipe's ``[data]`` table.
        folder: where data lies.
        target: opens what writes prompts; called only where some are wanted.
        tell: progress, see ``sources.Tell``.
        judged: suites along whose dev split heads are judged, see ``Excluded``.

    Raises:
        UsageError: no prompt is left, an unknown suite, two sources with the same prompt ids, or
            prompts are missing and another process writes the file.
        PrerequisiteError: a damaged file, or a target that cannot write prompts.
        SpecbenchError: the target failed, or the disk is full; what was written is kept.
    """
    path = folder / FILE
    # What cannot be read is found now and not when all prompts are written.
    excluded, sources = Excluded(data.exclude, judged), Sources(data, target, tell)
    there = _there(path)
    owners: dict[str, str] = {}
    records: Records | None = None
    with ExitStack() as stack:
        # Where all is there nothing is opened: then many may read the folder at once.
        if any(sources.lacks(source, there) for source in data.prompts):
            records = stack.enter_context(Records(path))
            # Again: another call may have written between the look and the lock.
            there = _there(path)
        for source in data.prompts:
            for identity, record in sources.missing(source, there):
                if owners.setdefault(identity, source.name) != source.name:
                    raise UsageError(
                        f"[[data.prompts]] {source.name!r} and {owners[identity]!r} both have a "
                        f"prompt {identity!r}",
                        "give one of them another name",
                    )
                if record is not None:
                    assert records is not None
                    records.add(record)
    return _kept(path, owners, excluded, sources.left_out)


def _there(path: Path) -> dict[str, Record]:
    return {record["id"]: record for record in read_records(path, KEYS)}


def _kept(
    path: Path, wanted: Collection[str], excluded: Excluded, left_out: Counter[str]
) -> Collected:
    prompts, seen = list[Asked](), set[str]()
    for record in read_records(path, KEYS):
        if record["id"] not in wanted:
            continue
        asked = None if record["messages"] is None else Asked.of(record)
        words = "" if asked is None else " ".join(asked.text.casefold().split())
        if asked is None or not words:
            why: str | None = "nothing usable was written"
        elif words in seen:
            why = "asked twice"
        else:
            why = excluded.reason(asked.text, record["origin"])
        seen.add(words)
        if why is not None:
            left_out[why] += 1
        elif asked is not None:
            prompts.append(asked)
    if not prompts:
        reasons = ", ".join(f"{why}: {count}" for why, count in left_out.items())
        raise UsageError(
            f"{path}: no prompt is left ({reasons or 'the sources gave none'})",
            f"name other sources in [[data.prompts]]; {', '.join(EVALUATED)}, the suites of "
            "data.exclude and the dev split of validate.suites are evaluated on and never trained "
            "on",
        )
    return Collected(prompts, left_out)
