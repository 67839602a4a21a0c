"""One file of captured conversations, in safetensors (layout below), written whole or not at all.

Shapes: S conversations, T tokens of all, H hidden size of the target.

- ``ids`` int32 [T], ``starts`` int64 [S + 1], ``answers`` int32 [S]: tokens one conversation after
  the other, where each begins, and the place of its answer's first token inside it.
- ``lse`` float32 [T], ``best`` int32 [T]: per position the logarithm of the sum of exponentials of
  the target's logits, and the first choice. With them probabilities of a few tokens can be had from
  the final hidden state alone: exp(row . state - lse).
- one tensor [T, H] per tap, named by ``tap_name``.
- metadata ``names``: the answers' ids as a JSON list.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from specbench.decoding.protocols import Tap
from specbench.models.heads.configs import FINAL
from specbench.train.capture.disk import writing
from specbench.train.data.asked import Answered


def tap_name(tap: Tap) -> str:
    """``final``, ``entering-2``, ``leaving-26``."""
    return tap.side if tap.side == "final" else f"{tap.side}-{tap.layer}"


def tap_of(name: str) -> Tap:
    """The hidden state that ``tap_name`` calls so."""
    side, _, layer = name.partition("-")
    return FINAL if side == "final" else Tap(int(layer), side)


def write_shard(
    path: Path,
    answers: Sequence[Answered],
    states: Mapping[Tap, Tensor],
    lse: Tensor,
    best: Tensor,
) -> str:
    """Write one shard; returns the SHA-256 of the file.

    Args:
        path: of the shard; it appears when it is complete.
        answers: S conversations.
        states: tap -> [T, H].
        lse, best: [T].

    Raises:
        SpecbenchError: the disk is full, or cannot be written.
    """
    counts = [len(one.prompt) + len(one.answer) for one in answers]
    ids = [token for one in answers for token in (*one.prompt, *one.answer)]
    tensors = {
        "ids": torch.tensor(ids, dtype=torch.int32),
        "starts": torch.tensor([0, *counts]).cumsum(0),
        "answers": torch.tensor([len(one.prompt) for one in answers], dtype=torch.int32),
        "lse": lse.float(),
        "best": best.to(torch.int32),
        **{tap_name(tap): state.contiguous() for tap, state in states.items()},
    }
    with writing(path, "finished shards are kept") as part:
        save_file(tensors, part, metadata={"names": json.dumps([one.id for one in answers])})
        return file_digest(part)


def file_digest(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def answer_digest(one: Answered) -> str:
    """What a captured answer is known by: the first digits of a hash over its tokens."""
    text = json.dumps([one.prompt, one.answer])
    return hashlib.sha256(text.encode()).hexdigest()[:16]
