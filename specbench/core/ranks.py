"""Whether this process leads or follows, where ``torchrun`` started several."""

from __future__ import annotations

import os
from collections.abc import Mapping


def follows(tensor_parallel: int, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this process only computes for another one.

    Args:
        tensor_parallel: processes that share the target.
        environment: where ``torchrun`` gives every process its ``RANK``.
    """
    return tensor_parallel > 1 and int(environment.get("RANK", "0")) > 0
