"""From a dialect to the factory that the catalogue names; the engine itself is imported late."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from specbench import catalog
from specbench.core.arm import ArmSpec
from specbench.engines.http.protocol import Dialect
from specbench.engines.protocol import Engine, EngineFactory
from specbench.engines.servers.protocol import Launcher
from specbench.errors import PrerequisiteError


def opener(dialect: Dialect) -> EngineFactory:
    """The factory of engines that speak a dialect; ``catalog.SERVERS`` names what starts them.

    The factory raises PrerequisiteError where h11 is not installed, and what ``HttpEngine``
    raises.
    """

    def open_engine(target: Mapping[str, object], arms: Sequence[ArmSpec]) -> Engine:
        try:
            from specbench.engines.http.engine import HttpEngine
        except ImportError as error:
            raise PrerequisiteError(
                f"talking to servers needs {error.name}", "type: pip install 'specbench-llm[serve]'"
            ) from None
        return cast(Engine, HttpEngine(target, arms, dialect, _launcher(dialect.name)))

    return open_engine


def _launcher(name: str) -> Launcher | None:
    place = catalog.SERVERS.get(name)
    if not place:
        return None
    module, _, attribute = place.partition(":")
    return cast(Launcher, catalog.load(module, attribute))
