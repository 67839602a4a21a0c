"""What is told to the guards about a cell beside its traces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from specbench.catalog import SERVERS
from specbench.core.manifest import UNKNOWN, UNQUANTISED, ArmFactors, Manifest
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
        random_weights=bool(_target(manifest).get("random_weights")),
    )


def _target(manifest: Manifest) -> Mapping[str, object]:
    """What the engine says of the target; nothing where it says nothing."""
    found = manifest.engine.get("target")
    return found if isinstance(found, Mapping) else {}


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
    """Whether the draft is the target, so that full acceptance is expected (case H9).

    That is a model with the target's weights, stored as the target's are, or all of the target's
    layers. Engines that do not say what they loaded are judged by the name. A quantised copy that
    is always right is suspicious: it may not be quantised at all.
    """
    if _skips_nothing(manifest, arm):
        return True
    drafts, identity = _drafts(manifest, arm.name), manifest.identity
    # A head inside the target's own files has their hash, and is other weights.
    models = [draft for draft in drafts if "family" not in draft]
    if drafts and not models:
        return False
    hashes = [draft.get("weight_hash", UNKNOWN) for draft in models]
    if hashes and UNKNOWN not in (identity.weight_hash, *hashes):
        kinds = [draft.get("quant", UNQUANTISED) for draft in models]
        return (identity.weight_hash, identity.quant) in zip(hashes, kinds, strict=True)
    named = check(manifest.experiment, f"experiment of run {manifest.run}").target.model
    return arm.drafter_options.get("model") == named


def _skips_nothing(manifest: Manifest, arm: ArmFactors) -> bool:
    total = _target(manifest).get("layers")
    whole = total is not None and arm.drafter_options.get("layers") == total
    return arm.drafter == "layer_skip" and whole


def _drafts(manifest: Manifest, arm: str) -> list[Mapping[str, object]]:
    """What an engine says it loaded for an arm."""
    drafts = manifest.engine.get("drafts")
    loaded = drafts.get(arm) if isinstance(drafts, Mapping) else None
    return [draft for draft in loaded or () if isinstance(draft, Mapping)]
