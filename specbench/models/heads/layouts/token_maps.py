"""Maps of a smaller draft vocabulary as files hold them: EAGLE-3's two tensors (case E2).

``d2t`` holds an offset per row of the output projection, ``t2d`` marks the target's tokens that are
drafted. Heads of other families have the same two at the top level of their files: an extension
that other programs may not read.
"""

from __future__ import annotations

from collections.abc import Mapping

from specbench.errors import PrerequisiteError
from specbench.models.heads.files import Checkpoint

OFFSETS, MEMBERSHIP = "d2t", "t2d"
MAPS = (OFFSETS, MEMBERSHIP)


def mapped_rows(
    checkpoint: Checkpoint, sources: Mapping[str, str], projection: str = ""
) -> int | None:
    """Vd: rows of a map of offsets; None where there is no map.

    Args:
        checkpoint: where tensors are stored.
        sources: canonical name -> stored name.
        projection: canonical name of an output projection that must have as many rows where it is
            there.

    Raises:
        PrerequisiteError: a map of another length or shape, or a mask without a map.
    """
    if OFFSETS not in sources:
        if MEMBERSHIP in sources:
            raise PrerequisiteError(
                f"{checkpoint.path} has the mask {MEMBERSHIP}, but no map {OFFSETS} of its tokens",
                "fetch or copy the checkpoint again",
            )
        return None
    count = map_length(checkpoint, sources[OFFSETS])
    rows = checkpoint.shape(sources[projection])[0] if projection in sources else count
    if rows != count:
        raise PrerequisiteError(
            f"{checkpoint.path}: {OFFSETS} has shape {[count]}, "
            f"{projection.removesuffix('.weight')} has {rows} rows",
            "fetch or copy the checkpoint again",
        )
    return count


def map_length(checkpoint: Checkpoint, name: str) -> int:
    """Tokens of a map. PrerequisiteError: it is no list."""
    shape = checkpoint.shape(name)
    if len(shape) != 1:
        raise PrerequisiteError(
            f"{checkpoint.path}: {name} has shape {list(shape)}, expected one entry per token",
            "fetch or copy the checkpoint again",
        )
    return shape[0]
