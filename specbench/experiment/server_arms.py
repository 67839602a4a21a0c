"""Arms that are servers: which there are, and what can be said of them before they are asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, cast

from specbench import catalog
from specbench.core.arm import PLAIN, ArmSpec
from specbench.core.manifest import UNKNOWN, ArmFactors
from specbench.engines.servers.protocol import Launcher
from specbench.errors import UsageError
from specbench.experiment.server_keys import attached, refuse_idle, refuse_same_place
from specbench.experiment.server_schema import ArmServer, Server

UNDESCRIBED = "server"
"""Name of the arm of an attached server that nobody described."""

ADDRESS = ("url", "metrics_urls")

CLAIMED = "claimed"
"""Lossless by the engine's word: the rule is exact, the engine's code of it is not ours."""

CLAIMS = {
    "greedy": CLAIMED,
    "rejection": CLAIMED,
    "target_match": CLAIMED,
    "block": CLAIMED,
    "lenient": "lossy",
    "typical": "lossy",
    "relaxed": "lossy",
    "threshold": "lossy",
    "synthetic": "meaningless",
    UNKNOWN: UNKNOWN,
}
"""What is known of the output law under a rule that a server implements."""


class DeclaredArm(Protocol):
    """An [arm.NAME] table of an experiment."""

    drafter: str
    k: int
    rule: str
    options: dict[str, object]
    rule_options: dict[str, object]
    server: ArmServer


def launcher_of(engine: str) -> Launcher | None:
    """How a server of this kind is started here; None where it can only be attached to."""
    place = catalog.SERVERS[engine]
    if not place:
        return None
    module, _, name = place.partition(":")
    return cast(Launcher, catalog.load(module, name))


def default_rule(engine: str) -> str:
    """The rule that a server applies unasked; unknown where we cannot know it."""
    launcher = launcher_of(engine)
    return UNKNOWN if launcher is None else launcher.rules[0]


def server_arms(engine: str, server: Server, declared: Mapping[str, DeclaredArm]) -> list[ArmSpec]:
    """All arms of an experiment on servers, plain first where there is one.

    An address makes an arm attached; without any address every arm is started here.

    Raises:
        UsageError: arms without an address beside one with, an engine that cannot be started, keys
            that nothing would read, or plain at the address of another arm.
    """
    refuse_idle(server, declared)
    if not attached(server, declared):
        if launcher_of(engine) is None:
            raise UsageError(f"engine {engine} cannot be started here", "give --url URL")
        return _started(engine, server, declared)
    arms = []
    if server.plain_url:
        place = _place(server.plain_url, server.plain_metrics_urls)
        arms.append(ArmSpec(PLAIN, engine=engine, server=place))
    if not declared and server.url:
        place = _place(server.url, server.metrics_urls)
        arms.append(ArmSpec(UNDESCRIBED, UNKNOWN, 0, UNKNOWN, engine, server=place))
    for name, arm in declared.items():
        url = arm.server.url or (server.url if len(declared) == 1 else None)
        if url is None:
            raise UsageError(
                f"arm {name} has no address, but other arms are attached to servers",
                f'write [arm.{name}.server] url = "http://..."',
            )
        place = _place(url, arm.server.metrics_urls or server.metrics_urls)
        arms.append(_spec(engine, name, arm, place))
    refuse_same_place(arms)
    return arms


def _started(engine: str, server: Server, declared: Mapping[str, DeclaredArm]) -> list[ArmSpec]:
    plain = ArmSpec(PLAIN, engine=engine, server=server.launch(ArmServer()))
    return [
        plain,
        *(_spec(engine, name, arm, server.launch(arm.server)) for name, arm in declared.items()),
    ]


def _place(url: str, metrics: Sequence[str]) -> dict[str, object]:
    return {"url": url, "metrics_urls": list(metrics)}


def _spec(engine: str, name: str, arm: DeclaredArm, place: Mapping[str, object]) -> ArmSpec:
    return ArmSpec(name, arm.drafter, arm.k, arm.rule, engine, arm.options, arm.rule_options, place)


def require_installed(arms: Iterable[ArmSpec]) -> None:
    """Ask for the package behind every server that is to be started by a command line of ours.

    Raises:
        PrerequisiteError: it is missing, with what to type.
    """
    asked: set[str] = set()
    for arm in arms:
        launcher = launcher_of(arm.engine)
        if launcher is None or not arm.started or arm.server.get("command"):
            continue
        python = launcher.python(arm)
        if python not in asked:
            launcher.version(python)
        asked.add(python)


def _check_named(arm: ArmSpec, launcher: Launcher) -> None:
    """An attached server drafts as it was started: its name need only be one that we know."""
    every = (launcher_of(engine) for engine in catalog.SERVERS)
    known = {name for each in every if each is not None for name in each.drafters}
    if arm.drafter not in known | {UNKNOWN}:
        raise UsageError(
            f"arm {arm.name}: unknown drafter {arm.drafter!r}",
            f'{catalog.nearest(arm.drafter, [*launcher.drafters])}; or write drafter = "{UNKNOWN}"',
        )


def server_factors(arm: ArmSpec) -> ArmFactors:
    """What distinguishes an arm that is a server.

    Raises:
        UsageError: the server that is to be started cannot decode like that, or a drafter of an
            attached one has a name that no server knows.
    """
    launcher = launcher_of(arm.engine)
    if launcher is not None and arm.started:
        launcher.check(arm)
    elif launcher is not None:
        _check_named(arm, launcher)
    # Where a server is says nothing of how it decodes.
    launch = {name: value for name, value in arm.server.items() if value and name not in ADDRESS}
    if arm.plain:
        return ArmFactors(
            arm.name, arm.drafter, 0, "none", arm.engine, lossless=CLAIMED, server=launch
        )
    if arm.rule not in CLAIMS:
        raise UsageError(
            f"arm {arm.name}: no server applies rule {arm.rule!r}",
            catalog.nearest(arm.rule, list(CLAIMS)),
        )
    return ArmFactors(
        name=arm.name,
        drafter=arm.drafter,
        k=arm.k,
        rule=arm.rule,
        engine=arm.engine,
        tree=UNKNOWN if arm.drafter == UNKNOWN else "chain",
        lossless=CLAIMS[arm.rule],
        drafter_options=arm.drafter_options,
        rule_options=arm.rule_options,
        server=launch,
    )
