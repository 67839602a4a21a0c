"""From a dialect to the factory that the catalogue names; the engine itself is imported late."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from specbench import catalog
from specbench.core.arm import ArmSpec
from specbench.core.request import Sampling
from specbench.engines.http.extra_fields import refuse_settings
from specbench.engines.http.protocol import Dialect
from specbench.engines.protocol import Engine
from specbench.engines.servers.protocol import Launcher
from specbench.errors import PrerequisiteError


@dataclass(frozen=True, slots=True)
class Opener:
    """Opens engines that speak a dialect; ``catalog.SERVERS`` names what starts such servers."""

    dialect: Dialect

    def __call__(self, target: Mapping[str, object], arms: Sequence[ArmSpec]) -> Engine:
        """Open one.

        Raises:
            PrerequisiteError: h11 is not installed; and what ``HttpEngine`` raises.
        """
        try:
            from specbench.engines.http.engine import HttpEngine
        except ImportError as error:
            raise PrerequisiteError(
                f"talking to servers needs {error.name}", "type: pip install 'specbench-llm[serve]'"
            ) from None
        launcher = _launcher(self.dialect.name)
        return cast(Engine, HttpEngine(target, arms, self.dialect, launcher))

    def check(self, samplings: Sequence[Sampling], concurrency: Sequence[int]) -> None:
        """UsageError where such servers cannot be asked for a setting; nothing is sent."""
        refuse_settings(self.dialect, samplings)


def opener(dialect: Dialect) -> Opener:
    """The factory of engines that speak a dialect."""
    return Opener(dialect)


def _launcher(name: str) -> Launcher | None:
    place = catalog.SERVERS.get(name)
    if not place:
        return None
    module, _, attribute = place.partition(":")
    return cast(Launcher, catalog.load(module, attribute))
