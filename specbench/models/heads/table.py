"""Bigram tables beside heads: how a folder with one is told, and whether it fits; without torch.

``bigram.safetensors`` holds ``next``, int32 [V]: for every token of the target the token that most
often followed it, -1 where none did. ``config.json`` says ``model_type`` = ``bigram``,
``vocabulary`` = V, how many ``tokens`` were counted, and the ``target`` that wrote them with its
``weight_hash``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specbench.errors import PrerequisiteError
from specbench.models.heads.files import Checkpoint

BIGRAM = "bigram"
"""``model_type`` of such a folder, and the drafter that reads it."""
LAYOUT = "table"
"""What stands where heads say in which program's names their tensors are."""
TABLE_FILE = "bigram.safetensors"
NEXT = "next"

_AGAIN = "count the table again, or copy it again"


def is_table(config: Mapping[str, Any]) -> bool:
    """Whether a ``config.json`` is that of a bigram table."""
    return config.get("model_type") == BIGRAM


def table_facts(checkpoint: Checkpoint, vocabulary: int | None) -> dict[str, Any]:
    """What a table's header and configuration say: ``vocabulary``, ``tokens`` and ``target``.

    Args:
        checkpoint: a folder for which ``is_table`` holds.
        vocabulary: rows of the target's logits, which the table must have; None checks nothing.

    Raises:
        PrerequisiteError: no table, one of another type or shape than it should have, or one of
            another vocabulary.
    """
    path, config = checkpoint.path, checkpoint.config
    if NEXT not in checkpoint:
        raise PrerequisiteError(f"{path} lacks tensor {NEXT} of a bigram table", _AGAIN)
    stored = checkpoint.stored(NEXT)
    if stored.dtype != "I32" or len(stored.shape) != 1:
        raise PrerequisiteError(
            f"{path}: tensor {NEXT} is {stored.dtype} of shape {list(stored.shape)}, a bigram "
            "table is I32 of shape [vocabulary]",
            _AGAIN,
        )
    (rows,) = stored.shape
    if config.get("vocabulary", rows) != rows:
        raise PrerequisiteError(
            f"{path}: config.json says {config['vocabulary']!r} tokens, {NEXT} has {rows}", _AGAIN
        )
    if vocabulary is not None and rows != vocabulary:
        raise PrerequisiteError(
            f"{path}: the bigram table has {rows} tokens, the target {vocabulary}",
            "use a table that was counted for this target",
        )
    return {"vocabulary": rows, "tokens": config.get("tokens"), "target": config.get("target")}
