"""From a head's checkpoint to how far it reaches, and with which switches it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from specbench.drafters.build import BuildContext, choice
from specbench.models.heads.configs import EagleConfig, HeadCheckpoint


def positions_known(checkpoint: HeadCheckpoint, context: BuildContext) -> int:
    """Positions that a head can draft at.

    An EAGLE head says how many it was made for; an MTP layer knows as many as the target.
    """
    config = checkpoint.config
    return config.max_positions if isinstance(config, EagleConfig) else context.target.context_limit


def chosen_switches(
    options: dict[str, object], switches: Mapping[str, tuple[str, ...]], arm: str
) -> dict[str, str]:
    """Switches that an arm sets itself; UsageError for values that there are not."""
    return {
        name: choice(options, name, values, arm)
        for name, values in switches.items()
        if name in options
    }


def switched(checkpoint: HeadCheckpoint, wanted: Mapping[str, str]) -> HeadCheckpoint:
    """The checkpoint with an arm's switches in place of its own, told apart in records."""
    config = checkpoint.config
    changed = {name: value for name, value in wanted.items() if getattr(config, name) != value}
    told = tuple(
        f"{name} = {value!r} by the arm, the checkpoint is read as {getattr(config, name)!r}"
        for name, value in changed.items()
    )
    return replace(
        checkpoint,
        config=replace(config, **changed),  # type: ignore[arg-type]
        oddities=(*checkpoint.oddities, *told),
    )
