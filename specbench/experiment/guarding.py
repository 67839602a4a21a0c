"""What is told to the guards about a cell beside its traces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from specbench.catalog import SERVERS
from specbench.core.manifest import ArmFactors, Manifest
from specbench.core.trace import Window
from specbench.experiment.schema import check
from specbench.measure.guards import Around
from specbench.results.cells import Cell
from specbench.results.read import Recorded

STARTED = "started here"
"""What stands in the manifest instead of the address of a server that the run started."""


def around(
    recorded: Recorded,
    cell: Cell,
    windows: Sequence[Window],
    plain_windows: Sequence[Window] = (),
) -> Around:
    """What the manifest and the counters say about a cell."""
    manifest = recorded.manifest
    arm = manifest.arm(cell.arm)
    sampling = next(
        entry
        for entry in manifest.identity.sampling
        if float(entry["temperature"]) == cell.temperature
    )
    return Around(
        k=arm.k,
        served=arm.engine in SERVERS,
        attached=_attached(manifest, cell.arm),
        prefix_cache=manifest.identity.prefix_cache,
        requested={**sampling, "max_new_tokens": manifest.identity.max_new_tokens},
        windows=windows,
        plain_windows=plain_windows,
        probes=_probes(recorded, cell.arm),
        stateful=arm.stateful,
    )


def _attached(manifest: Manifest, arm: str) -> bool:
    """Whether the arm's server was found running; one that runs alone is not in the manifest."""
    servers = manifest.engine.get("servers")
    facts = servers.get(arm) if isinstance(servers, Mapping) else None
    return isinstance(facts, Mapping) and facts.get("url", STARTED) != STARTED


def _probes(recorded: Recorded, arm: str) -> Mapping[str, object]:
    """What was tried out before measuring; a server that runs alone is tried when it starts."""
    in_manifest = recorded.manifest.engine.get("probes")
    found = in_manifest.get(arm) if isinstance(in_manifest, Mapping) else None
    if found is None:
        starts = recorded.starts.get(arm, [])
        found = next((facts["probes"] for facts in starts if "probes" in facts), None)
    return found if isinstance(found, Mapping) else {}


def draft_is_target(manifest: Manifest, arm: ArmFactors) -> bool:
    """Whether the draft is the target by name: then full acceptance is expected."""
    target = check(manifest.experiment, f"experiment of run {manifest.run}").target.model
    return arm.drafter_options.get("model") == target
