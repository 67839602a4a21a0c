"""What `specbench run --plan` prints: suites, servers and cost; nothing is loaded or sent."""

from __future__ import annotations

import shlex
from dataclasses import fields

import click

from specbench.cli.progress import cost_line
from specbench.cli.rows import write
from specbench.core.arm import ArmSpec
from specbench.core.suite import Suite
from specbench.engines.servers import given
from specbench.engines.servers.protocol import ServerPlan
from specbench.experiment.prepare import Prepared
from specbench.experiment.server_arms import launcher_of
from specbench.experiment.session import Session
from specbench.measure.estimate import planned_difference

PORT = 8000
"""Stands for the port that is free when a server starts."""


def show_plan(session: Session, form: str) -> None:
    """One document on stdout; only the console has more than the estimate.

    Raises:
        UsageError: the budget is too small.
        PrerequisiteError: an engine or a model of a server that is to be started is not here, or
            the device cannot be used or has too little memory.
    """
    if form != "console":
        write([plan_row(session)], form)
        return
    cost, prepared = session.plan(), session.prepared
    smallest = planned_difference(cost.items)
    servers = _servers(prepared)
    click.echo(f"arms: {', '.join(prepared.arm_names)}")
    for suite in prepared.suites:
        click.echo(_suite(prepared, suite))
    for line in servers:
        click.echo(line)
    for anchor in prepared.experiment.anchor:
        position = "" if anchor.position is None else f" {anchor.position}"
        click.echo(
            f"anchor: {anchor.metric}{position} of {anchor.arm}: {anchor.value:g} "
            f"± {100 * anchor.tolerance:g} % in {anchor.source}"
        )
    for line in session.room.lines() if session.room else ():
        click.echo(line)
    if cost.starts:
        click.echo(f"{cost.starts} server starts")
    click.echo(cost_line(cost))
    click.echo(
        f"smallest difference that {cost.items} prompts can show: about {100 * smallest:.0f} % "
        "(assuming a spread of 25 % between prompts)"
    )


def plan_row(session: Session) -> dict[str, object]:
    """The estimate by name; errors as ``show_plan``."""
    cost = session.plan()
    row = {f.name: getattr(cost, f.name) for f in fields(cost)}
    smallest = planned_difference(cost.items)
    memory = session.room.row() if session.room else {}
    return {**row, "minutes": cost.minutes, "smallest_difference": smallest, **memory}


def _suite(prepared: Prepared, suite: Suite) -> str:
    chosen = prepared.selection[suite.name]
    inside, total = prepared.offered(suite)
    split, count, why = prepared.splits[suite.name], str(len(chosen)), ""
    if inside < total:
        count = f"{len(chosen)} of {total}"
        why = f" (split {split}; --split all for the rest)"
        if len(chosen) < inside:
            why = f" (split {split} has {inside}; limit {prepared.experiment.workload.limit})"
    turns = sum(len(prompt.turns) for prompt in chosen)
    return f"suite {suite.name}: {count} prompts{why}, {turns} turns"


def _servers(prepared: Prepared) -> list[str]:
    if not prepared.experiment.on_server:
        return []
    lines = [line for arm in prepared.arms for line in _server(prepared, arm)]
    if any(not arm.started for arm in prepared.arms):
        lines.append("servers were not asked")
    return lines


def _server(prepared: Prepared, arm: ArmSpec) -> list[str]:
    engine = prepared.experiment.engine
    if not arm.started:
        named = arm.server["metrics_urls"]
        metrics = named if isinstance(named, list) else []
        counters = ", ".join(map(str, metrics)) or "its own /metrics"
        return [f"arm {arm.name}: {engine} at {arm.server['url']}, counters at {counters}"]
    times = "once" if prepared.starts == 1 else f"{prepared.starts} times"
    head = f"arm {arm.name}: {engine}, started {times}"
    if _is_written_first(prepared, arm):
        return [f"{head}, from float32 weights that are written out as GGUF first"]
    return [f"{head}, first as (on a free port)", *(f"  {line}" for line in _start(prepared, arm))]


def _is_written_first(prepared: Prepared, arm: ArmSpec) -> bool:
    """Whether the command line names a file that takes a while to write."""
    target = prepared.experiment.target
    models = [target.model, arm.drafter_options.get("model") or target.model]
    folders = any(not str(model).endswith(".gguf") for model in models)
    return prepared.experiment.engine == "llamacpp" and target.dtype == "float32" and folders


def _start(prepared: Prepared, arm: ArmSpec) -> list[str]:
    """The command line of an arm's first start, and the files that it names."""
    launcher = launcher_of(arm.engine)
    assert launcher is not None
    own = bool(arm.server.get("command"))
    target, workload = prepared.experiment.target, prepared.experiment.workload
    plan = ServerPlan(
        given.with_folder(arm),
        target.model,
        PORT,
        revision=target.revision,
        dtype=target.dtype,
        context=target.context,
        concurrency=max(workload.concurrency),
        seed=workload.seed,
        prefix_cache=prepared.experiment.server.prefix_cache != "off",
        version=None if own else launcher.version(launcher.python(arm)),
    )
    command = given.portable(shlex.join(given.without_secrets(launcher.command(plan))))
    extra = given.open_variables({**launcher.environment(plan), **given.variables(arm)})
    words = [f"{name}={shlex.quote(value)}" for name, value in extra.items()]
    lines = [" ".join([*words, command])]
    for name, content in launcher.files(plan).items():
        lines += [f"{name}:", *(f"  {line}" for line in content.splitlines())]
    return lines
