"""From the files of a published head to one description, whatever program wrote them."""

from __future__ import annotations

from collections.abc import Sequence

from specbench.models.heads.configs import HeadCheckpoint, TargetShape
from specbench.models.locate import Location


def read_head(
    location: Location,
    *,
    families: Sequence[str],
    target: TargetShape,
    dtype: str,
    arm: str = "",
) -> HeadCheckpoint:
    """Read a head's checkpoint; downloads a hub checkpoint that is not cached.

    Args:
        location: from ``locate``; for MTP layers the target's own folder.
        families: what the caller can run, of ``configs.FAMILIES``.
        target: what it is to fit.
        dtype: data type of the tensors.
        arm: for messages.

    Raises:
        UsageError: a checkpoint of another family, or what only a server can run.
        PrerequisiteError: missing, unknown or misshapen tensors; a head for another target.
    """
    raise NotImplementedError
