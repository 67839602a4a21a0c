"""A process of a tensor-parallel run that another one leads: it computes, and writes nothing."""

from __future__ import annotations

from specbench.core.ranks import follows
from specbench.errors import UsageError
from specbench.experiment.prepare import Prepared
from specbench.experiment.settings import engine_settings


def is_follower(prepared: Prepared) -> bool:
    """Whether this process is one."""
    return follows(prepared.experiment.target.tensor_parallel)


def follow(prepared: Prepared) -> None:
    """Take part until the leader ends.

    Raises:
        UsageError: an engine that is not the native one.
    """
    if prepared.experiment.engine != "native":
        raise UsageError(
            f"engine {prepared.experiment.engine} does not share a target among processes",
            "leave target.tensor_parallel out",
        )
    from specbench.engines.native_follower import follow_native

    follow_native(engine_settings(prepared.experiment), prepared.arms)
