"""The native engine's part in a process that another one leads (``target.tensor_parallel``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from specbench import catalog
from specbench.core.arm import ArmSpec
from specbench.drafters.build import BuildContext
from specbench.models.opened import load_packed
from specbench.models.parallel.follower import follow
from specbench.models.parallel.group import leave
from specbench.models.pooled import Pooled

SHARED = ("mtp",)
"""Drafters with a layer like the target's, which are shared as it is."""


def follow_native(settings: Mapping[str, Any], arms: Sequence[ArmSpec]) -> None:
    """Load this process's part of the target and of its heads, and compute until told to stop.

    Args:
        settings, arms: as for ``engines.native.open_engine``.

    Raises:
        UsageError, PrerequisiteError: as the leader raises.
        SpecbenchError: the leader is gone.
    """
    made = load_packed(settings)
    models: dict[str, Pooled] = {made.model.owner: made.model}
    for arm in arms:
        if arm.drafter not in SHARED:
            continue
        context = BuildContext(arm.name, made.loaded, made.model, made.vocabulary, made.prepack)
        factory: Any = catalog.resolve("drafters", arm.drafter)
        factory.build(dict(arm.drafter_options), context)
        models |= {model.owner: model for model in context.models if isinstance(model, Pooled)}
    made.model.model.get_output_embeddings().drop_whole()
    assert made.model.group is not None, "a process alone leads"
    follow(made.model.group, models)
    leave()
