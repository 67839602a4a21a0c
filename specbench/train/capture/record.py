"""``capture.json``: which shards there are, of which target, and their hashes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from specbench.errors import PrerequisiteError, UsageError
from specbench.train.capture.disk import writing
from specbench.train.capture.shard import answer_digest, file_digest
from specbench.train.data.asked import Answered

RECORD = "capture.json"


class ShardEntry(BaseModel):
    """One shard: its file, the file's SHA-256, and what is inside.

    ``answers``: id of every conversation, in order -> ``shard.answer_digest`` of it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    file: str
    sha256: str
    answers: dict[str, str]
    tokens: int


class CaptureRecord(BaseModel):
    """The manifest of a capture.

    Attributes:
        weight_hash: of the target whose states these are.
        dtype: data type of the states.
        taps: names of the hidden states, see ``shard.tap_name``.
        shards: in the order in which they were written.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    schema_version: Literal[1] = 1
    weight_hash: str
    dtype: str
    taps: list[str]
    shards: list[ShardEntry] = []

    def write(self, folder: Path) -> None:
        """Write the record; it replaces the former one at once.

        Raises:
            SpecbenchError: the disk is full; the former record is still there.
        """
        with writing(folder / RECORD, "finished shards are kept") as part:
            part.write_text(json.dumps(self.model_dump(), indent=1) + "\n", encoding="utf-8")

    @property
    def answers(self) -> dict[str, str]:
        """Id -> digest of all captured answers."""
        return {name: digest for s in self.shards for name, digest in s.answers.items()}


def read_record(folder: Path) -> CaptureRecord | None:
    """The record of a folder, or None where nothing was captured.

    Raises:
        PrerequisiteError: a file that is no such record.
    """
    path = folder / RECORD
    if not path.is_file():
        return None
    try:
        return CaptureRecord.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise PrerequisiteError(
            f"{path} is not the record of a capture",
            f"remove the folder {folder}; it is made again",
        ) from error


def folder_for(root: Path, taps: Sequence[str], dtype: str) -> Path:
    """The folder under ``root`` that has these hidden states, or where they are to be written.

    States that were captured for another head serve as well where all of the wanted are among them,
    in the same data type.
    """
    for path in sorted(root.glob(f"*/{RECORD}")):
        record = read_record(path.parent)
        if record is not None and set(taps) <= set(record.taps) and record.dtype == dtype:
            return path.parent
    return root / "_".join([*taps, dtype])


def require_same(
    record: CaptureRecord, weight_hash: str, answers: Iterable[Answered], folder: Path
) -> None:
    """Refuse to go on in a folder of another target or of other answers.

    Raises:
        UsageError: its states were captured from other weights, or along other tokens.
    """
    if record.weight_hash != weight_hash:
        raise UsageError(
            f"{folder} was captured with weight_hash {record.weight_hash}, now it is {weight_hash}",
            f"name another data folder, or remove {folder}; it is made again",
        )
    there = record.answers
    for one in answers:
        if there.get(one.id, answer_digest(one)) != answer_digest(one):
            raise UsageError(
                f"{folder} was captured along another answer {one.id} than there is now",
                f"remove {folder}; it is made again",
            )


def verify_shards(record: CaptureRecord, folder: Path) -> None:
    """Raise PrerequisiteError for a shard that is missing or is not what was written."""
    for shard in record.shards:
        path = folder / shard.file
        if not path.is_file():
            raise PrerequisiteError(f"{path} is missing", f"remove {folder}; it is made again")
        if file_digest(path) != shard.sha256:
            raise PrerequisiteError(
                f"{path} has changed since it was written", f"remove {folder}; it is made again"
            )
