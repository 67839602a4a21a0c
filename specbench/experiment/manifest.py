"""Builds the manifest of a run from the checked experiment and what the loaded engine says."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from specbench.core.manifest import UNKNOWN, Identity, Manifest, canonical
from specbench.core.request import Sampling
from specbench.engines.protocol import Engine
from specbench.experiment.prepare import Prepared
from specbench.experiment.schema import Experiment
from specbench.measure.calibrate import Calibration
from specbench.measure.environment import environment, without_secrets
from specbench.suites.statistics import prompt_statistics


def build_manifest(
    prepared: Prepared,
    engine: Engine,
    calibration: Calibration,
    template: str,
    run: str,
    command: Sequence[str],
) -> Manifest:
    """The manifest, complete before the first measured request.

    Args:
        template: hash of the chat template that rendered the prompts.
    """
    facts = {"template_hash": template, **engine.describe()}
    here = environment(Path.cwd())
    experiment = prepared.experiment
    return Manifest(
        run=run,
        title=experiment.title or experiment.name,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        identity=_identity(prepared, engine, facts, _processor(engine.device, here)),
        arms=prepared.factors,
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
        },
        memory={name: asdict(engine.memory(name)) for name in prepared.arm_names},
        engine={name: _plain(fact) for name, fact in facts.items()} | {"name": engine.name},
        environment=here,
        prompts={
            name: _plain_mapping(asdict(prompt_statistics(chosen)))
            for name, chosen in prepared.selection.items()
        },
        command=without_secrets(command),
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
        target=str(facts.get("served_model") or experiment.target.model),
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
    )


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
