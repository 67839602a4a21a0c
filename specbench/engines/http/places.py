"""Where the servers of the arms are: attached to, or started here and stopped again."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from specbench.core.arm import ArmSpec
from specbench.engines.http.address import base_url
from specbench.engines.http.options import ServerOptions
from specbench.engines.http.protocol import Served
from specbench.engines.http.sender import Target
from specbench.engines.servers.given import with_folder
from specbench.engines.servers.ports import free_port
from specbench.engines.servers.process import Running, start
from specbench.engines.servers.protocol import Launcher, ServerPlan
from specbench.errors import SpecbenchError, UsageError

PROBE_S = 5.0
ENDING_POLLS, ENDING_PAUSE_S = 20, 0.05

Meet = Callable[[str], Served]
"""Asks the server at an address about itself."""


@dataclass(slots=True)
class Place:
    """The server of one arm.

    Attributes:
        target: None until it was met.
        running: its process, where it was started here and lives.
        lost: why it cannot be used; empty while it can.
        metrics_urls: pages with its counters, those of replicas among them.
    """

    arm: ArmSpec
    target: Target | None = None
    running: Running | None = None
    lost: str = ""

    @property
    def attached(self) -> bool:
        """Whether somebody else runs it."""
        return bool(self.arm.server.get("url"))

    @property
    def metrics_urls(self) -> list[str]:
        """Pages with its counters; those of replicas where the experiment names them."""
        named: Any = self.arm.server.get("metrics_urls") or ()
        if named or self.target is None:
            return [str(url) for url in named]
        return [f"{self.target.served.url}/metrics"]

    def gone(self) -> str:
        """Why a server that was started here does not answer any more; empty where it does."""
        running = self.running
        if running is None or (not running.ended() and running.answers(PROBE_S)):
            return ""
        # A process closes its connections a moment before it can be seen to have ended.
        for _ in range(ENDING_POLLS):
            if ended := running.ended():
                # Its last words may still be on their way through the pipe.
                time.sleep(ENDING_PAUSE_S)
                last = " | ".join(running.log_tail(3))
                return f"{ended}; it last printed: {last}" if last else ended
            time.sleep(ENDING_PAUSE_S)
        return f"the server hangs: no answer to a health check within {PROBE_S:g} s"

    def stop(self) -> None:
        """End what was started here."""
        if self.running is not None:
            self.running.stop()
            self.running = None
            self.target = None


@dataclass(slots=True)
class Places:
    """The servers of all arms.

    Args:
        settings: of the engine, for plans of servers.
        target: the model's folder or file where it was found, else its name.
        routes: that can be used, best first.
    """

    arms: Mapping[str, ArmSpec]
    settings: Mapping[str, Any]
    options: ServerOptions
    launcher: Launcher | None
    model: str
    routes: tuple[str, ...]
    meet: Meet
    by_arm: dict[str, Place] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for arm in self.arms.values():
            self.by_arm[arm.name] = Place(arm)
            if arm.server.get("url"):
                continue
            if self.launcher is None:
                raise UsageError(
                    f"arm {arm.name} has no address, and servers of this kind are not started here",
                    "give --url URL",
                )
            self.launcher.check(arm)
            self.by_arm[arm.name] = Place(with_folder(arm))

    def attach(self) -> None:
        """Meet every server that somebody else runs. Raises what the first contact raises."""
        for place in self.by_arm.values():
            if place.attached and place.target is None:
                self._meet(place, str(place.arm.server["url"]))

    def begin(self, name: str, index: int) -> Mapping[str, object]:
        """Start the server of an arm, or look again at an attached one.

        Returns:
            what is worth keeping of the start; empty for an attached server. A server that cannot
            be started or reached is lost, with the reason in ``failed``.
        """
        place = self.by_arm[name]
        place.lost = ""
        try:
            if place.attached:
                self._meet(place, str(place.arm.server["url"]))
                return {}
            assert self.launcher is not None
            place.stop()
            plan = self._plan(place.arm, index)
            place.running = start(self.launcher, plan, None, self.options.ready_timeout_s)
            facts = dict(place.running.facts)
            self._meet(place, place.running.url)
            return facts
        except SpecbenchError as error:
            place.lost = error.message
            place.stop()
            return {"failed": error.message}

    def stop(self) -> None:
        """End everything that was started here."""
        for place in self.by_arm.values():
            place.stop()

    def served(self) -> dict[str, Served]:
        """The servers that were met, by arm."""
        return {
            name: place.target.served
            for name, place in self.by_arm.items()
            if place.target is not None
        }

    def _meet(self, place: Place, url: str) -> None:
        dropped = place.target.dropped if place.target is not None else set()
        served = self.meet(base_url(url))
        place.target = Target(served, self.routes, set(dropped))

    def _plan(self, arm: ArmSpec, index: int) -> ServerPlan:
        settings = self.settings
        return ServerPlan(
            arm=arm,
            target=self.model,
            port=free_port(),
            # A folder or file on this disk is of one revision.
            revision=settings.get("revision") if self.model == settings.get("model") else None,
            dtype=str(settings.get("dtype") or ""),
            context=settings.get("context"),
            concurrency=self.options.concurrency,
            seed=self.options.seed + index,
            prefix_cache=self.options.prefix_cache != "off",
        )
