"""What a run on servers records about them and about the model that they serve."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from specbench.core.manifest import UNKNOWN
from specbench.engines.http.options import ServerOptions
from specbench.engines.http.places import Places
from specbench.engines.http.protocol import Served
from specbench.engines.http.tokens import SERVER_TEMPLATE, ModelTokens
from specbench.errors import SpecbenchError
from specbench.models.locate import Location, locate

UNLIMITED = 1 << 31
"""Context limit where nobody says one."""


@dataclass(frozen=True, slots=True)
class KnownModel:
    """The target as far as it can be seen from here.

    Attributes:
        name: as the experiment gives it.
        location: where it was found on this disk; None where it was not.
        tokens: its tokenizer; None without one.
        managed: its servers are started here, so what was found here is what they serve.
    """

    name: str
    location: Location | None
    tokens: ModelTokens | None
    managed: bool

    @property
    def place(self) -> str:
        """Folder or file for servers that are started here, else the name."""
        if self.location is None or self.location.path is None:
            return self.name
        return str(self.location.path)

    def facts(self, settings: Mapping[str, Any], served: Mapping[str, Served]) -> dict[str, object]:
        """Name, revision, weights and tokenizer, ``unknown`` where only the server knows."""
        names = sorted({server.model for server in served.values()})
        facts: dict[str, object] = {
            "name": self.name,
            "served_as": names,
            "revision": UNKNOWN,
            "weight_hash": UNKNOWN,
            "dtype": str(settings.get("dtype") or UNKNOWN) if self.managed else UNKNOWN,
            "context_limit": context_limit(self, served),
        }
        if self.managed and self.location is not None and self.location.path is not None:
            from specbench.models.weights import weight_hash

            facts["revision"] = self.location.revision or UNKNOWN
            facts["source"] = self.location.source
            facts["weight_hash"] = weight_hash(self.location.path)
        if self.tokens is not None:
            facts["tokenizer"] = self.tokens.location.source
            facts["eos_ids"] = list(self.tokens.eos_ids)
        return facts


def find(name: str, revision: str | None) -> Location | None:
    """Where a model is on this disk; None where it is not or only in part."""
    try:
        found = locate(name, revision=revision, offline=True)
    except SpecbenchError:
        return None
    return found if found.path is not None else None


def context_limit(model: KnownModel, served: Mapping[str, Served]) -> int:
    """Longest prompt plus output: the smallest that the servers say, else the model's own."""
    said = [server.context for server in served.values() if server.context is not None]
    own = model.tokens.context if model.tokens is not None else None
    return min(said, default=own or UNLIMITED)


def engine_facts(
    name: str,
    places: Places,
    model: KnownModel,
    options: ServerOptions,
    settings: Mapping[str, Any],
    probes: Mapping[str, Mapping[str, str]],
) -> dict[str, object]:
    """Everything for the manifest; no key, no user of an address."""
    served = places.served()
    # The chat route applies the server's template, whatever prompts look like here.
    template = {"template_hash": SERVER_TEMPLATE} if places.routes[0] == "chat" else {}
    return {
        "engine": name,
        **template,
        "servers": {arm: _server_facts(places, arm, server) for arm, server in served.items()},
        "target": model.facts(settings, served),
        "route": places.routes[0],
        "prefix_cache": options.prefix_cache,
        "probes": {arm: dict(found) for arm, found in probes.items()},
    }


def _server_facts(places: Places, arm: str, server: Served) -> dict[str, object]:
    place = places.by_arm[arm]
    started = dict(place.running.facts) if place.running is not None else {}
    facts: dict[str, object] = {
        "url": server.url if place.attached else "started here",
        "model": server.model,
        # A package knows its version; what servers call themselves is often less.
        "version": started.get("version") or server.version or UNKNOWN,
        "context": server.context,
        "facts": dict(server.facts),
    }
    if place.target is not None and place.target.dropped:
        facts["refused_fields"] = sorted(place.target.dropped)
    if started:
        facts["start"] = started
    return facts
