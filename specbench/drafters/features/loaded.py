"""From a head's checkpoint to how far it reaches, and with which switches it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from specbench.decoding.protocols import Tap
from specbench.drafters.build import BuildContext, choice
from specbench.errors import PrerequisiteError, UsageError
from specbench.models.heads.configs import EagleConfig, HeadCheckpoint
from specbench.models.heads.layouts.taps import places_of


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


def with_layers(checkpoint: HeadCheckpoint, side: str, layers: int, arm: str) -> HeadCheckpoint:
    """The checkpoint with the side of its layer numbers that an arm says.

    Args:
        checkpoint: an EAGLE-3 head.
        side: ``entering`` or ``leaving``.
        layers: of the target.
        arm: for messages.

    Raises:
        UsageError: a file that names no layers, so that no number has a side.
        PrerequisiteError: a layer that the target does not have.
    """
    config = checkpoint.config
    if not isinstance(config, EagleConfig) or not checkpoint.layer_ids:
        raise UsageError(
            f"arm {arm}: layers={side!r}, but {checkpoint.name} names no layers of the target",
            "leave layers out; it says which side of the numbers in a file is meant",
        )
    try:
        places = places_of(checkpoint.layer_ids, side, layers)
    except PrerequisiteError as error:
        raise PrerequisiteError(
            f"arm {arm}: layers={side!r}: {error.message}",
            f"leave layers out, which reads them as {_described(config.taps)}",
        ) from error
    taps = tuple(Tap(*place) for place in places)
    if taps == config.taps:
        return checkpoint
    told = f"layers = {side!r} by the arm, the checkpoint is read with {_described(config.taps)}"
    return replace(
        checkpoint,
        config=replace(config, taps=taps),
        oddities=(*checkpoint.oddities, told),
    )


def _described(taps: Sequence[Tap]) -> str:
    """Hidden states in words."""
    return ", ".join(f"{tap.side} {tap.layer}" for tap in taps)


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
