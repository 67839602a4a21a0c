"""From a head's checkpoint to how far it reaches."""

from __future__ import annotations

from specbench.drafters.build import BuildContext
from specbench.models.heads.configs import EagleConfig, HeadCheckpoint


def positions_known(checkpoint: HeadCheckpoint, context: BuildContext) -> int:
    """Positions that a head can draft at.

    An EAGLE head says how many it was made for; an MTP layer knows as many as the target.
    """
    config = checkpoint.config
    return config.max_positions if isinstance(config, EagleConfig) else context.target.context_limit
