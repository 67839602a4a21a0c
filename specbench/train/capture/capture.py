"""Runs the target once over its answers and writes what a head reads of it.

The forward is the packed one that measures, so that a head learns from the very states that it will
be given. Positions of a prompt are captured too: heads have keys and values there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from specbench.core.full_memory import out_of_memory
from specbench.decoding.protocols import Tap
from specbench.errors import PrerequisiteError
from specbench.models.heads.configs import FINAL
from specbench.models.opened import OpenedTarget
from specbench.models.packed_batch import Segment, pack
from specbench.results.lock import written_alone
from specbench.train.capture.disk import unwritten
from specbench.train.capture.record import (
    RECORD,
    CaptureRecord,
    ShardEntry,
    folder_for,
    read_record,
    require_same,
    verify_shards,
)
from specbench.train.capture.shard import answer_digest, tap_name, tap_of, write_shard
from specbench.train.data.asked import Answered

BATCH_TOKENS = 4096
"""Tokens of one forward."""
SHARD_TOKENS = 32768
"""Tokens after which a shard is closed: what a kill costs at most."""
ROWS = 512
"""Positions whose logits are held at a time."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be captured.

    Attributes:
        weight_hash: of the target.
        taps: hidden states; the final one is always captured, because losses need it.
        dtype: in which states are stored.
    """

    weight_hash: str
    taps: Sequence[Tap]
    dtype: torch.dtype

    @property
    def names(self) -> list[str]:
        """Of all hidden states, the final one first."""
        return [tap_name(tap) for tap in dict.fromkeys([FINAL, *self.taps])]


def capture(
    opened: Callable[[], OpenedTarget],
    answers: Sequence[Answered],
    wanted: Wanted,
    root: Path,
    tell: Callable[[int, int], None],
    rest: Callable[[], None] = lambda: None,
) -> tuple[Path, CaptureRecord]:
    """Write shards for all answers that have none yet; the folder and its record.

    Args:
        opened: opens the target; called only where something is missing.
        answers: conversations.
        wanted: see there.
        root: where the folders of captures lie; see ``record.folder_for``.
        tell: called with tokens done and tokens wanted.
        rest: called behind each finished shard; what it raises ends the capture there.

    Raises:
        UsageError: the folder holds states of another target or of other answers, or states are
            missing and another process captures into it.
        PrerequisiteError: a shard is missing or has changed; memory is short.
        SpecbenchError: the disk is full.
    """
    dtype = str(wanted.dtype).removeprefix("torch.")
    folder = folder_for(root, wanted.names, dtype)
    empty = CaptureRecord(weight_hash=wanted.weight_hash, dtype=dtype, taps=wanted.names)
    record = read_record(folder) or empty
    with ExitStack() as stack:
        # What is complete is read without a lock, by as many as like.
        if _missing(record, answers):
            try:
                stack.enter_context(written_alone(folder / RECORD))
            except OSError as error:
                raise unwritten(folder, error, "finished shards are kept") from error
            # Again: another call may have added shards between the look and the lock.
            record = read_record(folder) or empty
        require_same(record, wanted.weight_hash, answers, folder)
        # Before hours are spent on the rest.
        verify_shards(record, folder)
        missing = _missing(record, answers)
        return folder, _extended(record, opened, missing, wanted.dtype, folder, tell, rest)


def _missing(record: CaptureRecord, answers: Sequence[Answered]) -> list[Answered]:
    there = record.answers
    return [one for one in answers if one.id not in there]


def _extended(
    record: CaptureRecord,
    opened: Callable[[], OpenedTarget],
    missing: Sequence[Answered],
    dtype: torch.dtype,
    folder: Path,
    tell: Callable[[int, int], None],
    rest: Callable[[], None],
) -> CaptureRecord:
    """Write shards for what is missing, and the record behind each; the last record."""
    taps = [tap_of(name) for name in record.taps]
    done, total = 0, sum(map(_length, missing))
    for group in _groups(missing, SHARD_TOKENS):
        parts = []
        for batch in _groups(group, BATCH_TOKENS):
            parts.append(_forward(opened(), batch, taps, dtype))
            done += sum(map(_length, batch))
            tell(done, total)
        path = folder / f"shard-{len(record.shards):05d}.safetensors"
        states = {tap: torch.cat([held[tap] for held, _, _ in parts]) for tap in taps}
        lse = torch.cat([sums for _, sums, _ in parts])
        best = torch.cat([first for _, _, first in parts])
        entry = ShardEntry(
            file=path.name,
            sha256=write_shard(path, group, states, lse, best),
            answers={one.id: answer_digest(one) for one in group},
            tokens=sum(map(_length, group)),
        )
        record = record.model_copy(update={"shards": [*record.shards, entry]})
        record.write(folder)
        rest()
    return record


def _length(one: Answered) -> int:
    return len(one.prompt) + len(one.answer)


def _groups(answers: Sequence[Answered], tokens: int) -> Iterator[list[Answered]]:
    """Neighbours that have at most so many tokens together, at least one at a time."""
    group: list[Answered] = []
    held = 0
    for one in answers:
        if group and held + _length(one) > tokens:
            yield group
            group, held = [], 0
        group.append(one)
        held += _length(one)
    if group:
        yield group


def _forward(
    opened: OpenedTarget, batch: Sequence[Answered], taps: Sequence[Tap], dtype: torch.dtype
) -> tuple[dict[Tap, Tensor], Tensor, Tensor]:
    """Tapped states [T, H] on the host, and lse and first choice [T] of the target's rows."""
    segments = [Segment(slab, 0, _length(one)) for slab, one in enumerate(batch)]
    ids = torch.tensor([token for one in batch for token in (*one.prompt, *one.answer)])
    packed = pack(segments, ids.to(opened.loaded.device), "none")
    try:
        opened.new_pool(len(batch), max(map(_length, batch)))
        _, states = opened.model.forward(packed, taps)
        lse, best = _rows(opened, states[FINAL])
        kept = {tap: states[tap].to("cpu", dtype) for tap in taps}
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        raise PrerequisiteError(
            f"out of memory while capturing {len(ids)} tokens at a time",
            "finished shards are kept: free memory and type the same command again, or ask for "
            "shorter answers with data.max_new_tokens and another data folder",
        ) from error
    finally:
        opened.model.forget()
    return kept, lse.cpu(), best.cpu()


@torch.inference_mode()
def _rows(opened: OpenedTarget, final: Tensor) -> tuple[Tensor, Tensor]:
    """Logarithm of the sum of exponentials and argmax of the logits, some rows at a time."""
    project, padding = opened.loaded.model.get_output_embeddings(), opened.model.padding
    sums, best = [], []
    for part in final.split(ROWS):
        logits = project(part)
        if padding is not None:
            logits = logits.masked_fill(padding, -torch.inf)
        sums.append(logits.float().logsumexp(-1))
        best.append(logits.argmax(-1))
    return torch.cat(sums), torch.cat(best)
