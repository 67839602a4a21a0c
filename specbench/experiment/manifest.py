"""Builds the manifest of a run from the checked experiment and what the loaded engine says."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

from specbench.core.manifest import (
    UNKNOWN,
    UNQUANTISED,
    ArmFactors,
    Identity,
    Manifest,
    canonical,
)
from specbench.core.request import Sampling
from specbench.engines.protocol import Engine
from specbench.errors import SpecbenchError
from specbench.experiment.load import SERVED
from specbench.experiment.prepare import Prepared
from specbench.experiment.schema import Experiment
from specbench.measure.calibrate import Calibration
from specbench.measure.environment import environment, without_secrets
from specbench.models.locate import locate
from specbench.models.weights import weight_hash
from specbench.suites.statistics import prompt_statistics


def build_manifest(
    prepared: Prepared,
    engine: Engine,
    calibration: Calibration,
    template: str,
    run: str,
    command: Sequence[str],
    choice: Mapping[str, object] | None = None,
) -> Manifest:
    """The manifest, complete before the first measured request.

    Args:
        template: hash of the chat template that rendered the prompts.
        choice: how the arms' K came to be what they are, where a sweep chose them.
    """
    facts = {"template_hash": template, **engine.describe()}
    if prepared.experiment.on_server:
        facts["drafts"] = _drafts(prepared)
    here = environment(Path.cwd())
    experiment = prepared.experiment
    return Manifest(
        run=run,
        title=experiment.title or experiment.name,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        identity=_identity(prepared, engine, facts, _processor(engine.device, here)),
        arms=_factors(prepared, facts),
        suites=prepared.suite_uses(),
        experiment=experiment.resolved(),
        planned=sum(1 for unit in prepared.units() for _ in unit.records()),
        seed=experiment.workload.seed,
        calibration={
            "first_request_ms": dict(calibration.first_request_ms),
            "seconds_per_token": {
                f"{arm}@{concurrency}": seconds
                for (arm, concurrency), seconds in calibration.speed.measured.items()
            },
            "steps": _plain(asdict(calibration.steps)),
            **({"limit": asdict(calibration.limit)} if calibration.limit else {}),
        },
        memory={name: asdict(engine.memory(name)) for name in prepared.arm_names},
        engine={name: _plain(fact) for name, fact in facts.items()} | {"name": engine.name},
        environment=here,
        prompts={
            name: _plain_mapping(asdict(prompt_statistics(chosen)))
            for name, chosen in prepared.selection.items()
        },
        command=without_secrets(command),
        choice=dict(choice or {}),
    )


def _identity(
    prepared: Prepared, engine: Engine, facts: Mapping[str, object], device: str
) -> Identity:
    experiment, conditions = prepared.experiment, prepared.conditions

    target = facts.get("target")
    model = target if isinstance(target, Mapping) else {}

    def fact(name: str, default: str = UNKNOWN) -> str:
        return str(model.get(name) or facts.get(name) or default)

    return Identity(
        suites={
            use.name: {"version": use.version, "digest": use.digest, "split": use.split}
            for use in prepared.suite_uses()
        },
        target=_target(experiment, model),
        target_revision=fact("revision"),
        weight_hash=fact("weight_hash"),
        dtype=fact("dtype", experiment.target.dtype),
        device=device,
        sampling=tuple(_sampling(sampling) for sampling in conditions.samplings),
        max_new_tokens=conditions.max_new_tokens,
        stop=conditions.stop,
        concurrency=conditions.concurrency,
        arrival=experiment.workload.arrival_name,
        template_hash=fact("template_hash"),
        thinking=_thinking(experiment),
        prefix_cache=fact("prefix_cache", "off"),
        history=conditions.history,
        system_policy=experiment.workload.system_policy,
        quant=fact("quant", experiment.target.quantised.label),
    )


def _target(experiment: Experiment, model: Mapping[str, object]) -> str:
    """The target by name; what the server serves where the experiment takes whatever that is."""
    served = model.get("served_as")
    if experiment.target.model == SERVED and isinstance(served, list) and served:
        return ", ".join(map(str, served))
    return experiment.target.model


def _factors(prepared: Prepared, facts: Mapping[str, object]) -> tuple[ArmFactors, ...]:
    """Arms with what their drafts were quantised to, and the fields that all servers are sent."""
    body = {
        name: value
        for name, value in prepared.experiment.server.extra_body.items()
        if name != "chat_template_kwargs"
    }
    arms = tuple(replace(arm, quant=draft_quant(facts, arm.name)) for arm in prepared.factors)
    if not body:
        return arms
    return tuple(replace(arm, server={**arm.server, "extra_body": body}) for arm in arms)


def draft_quant(facts: Mapping[str, object], arm: str) -> str:
    """What was loaded for an arm, as the engine says; several drafts of one arm may differ."""
    drafts = facts.get("drafts")
    loaded = drafts.get(arm) if isinstance(drafts, Mapping) else None
    found = loaded if isinstance(loaded, list) else []
    kinds = {str(draft.get("quant", UNQUANTISED)) for draft in found if isinstance(draft, Mapping)}
    return ", ".join(sorted(kinds)) or UNQUANTISED


def _drafts(prepared: Prepared) -> dict[str, object]:
    """Draft models of servers, with the hash of their weights where they are on this disk."""
    drafts: dict[str, object] = {}
    for arm in prepared.arms:
        name = arm.drafter_options.get("model")
        if isinstance(name, str):
            drafts[arm.name] = [{"name": name, "weight_hash": _weights(name)}]
    return drafts


def _weights(name: str) -> str:
    try:
        place = locate(name, offline=True).path
        return UNKNOWN if place is None else weight_hash(place)
    except SpecbenchError:
        return UNKNOWN


def _thinking(experiment: Experiment) -> str:
    """What the chat template is told about thinking; nothing leaves it to the template."""
    told = experiment.server.extra_body.get("chat_template_kwargs")
    return canonical(told) if told else "template default"


def _sampling(sampling: Sampling) -> dict[str, float]:
    return {name: float(value) for name, value in asdict(sampling).items()}


def _processor(device: str, here: Mapping[str, object]) -> str:
    # "cpu" alone would let runs of different machines be compared as if they were one.
    hardware = here["hardware"]
    if device != "cpu" or not isinstance(hardware, Mapping):
        return device
    return f"cpu ({hardware['cpu']}, {hardware['cores_usable'] or os.cpu_count()} cores)"


def _plain_mapping(values: Mapping[str, object]) -> dict[str, object]:
    return {name: _plain(value) for name, value in values.items()}


def _plain(value: object) -> object:
    """Facts of an engine as JSON values; what JSON has no form for becomes text."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(inner) for inner in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return str(value)
