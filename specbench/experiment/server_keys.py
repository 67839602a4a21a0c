"""Keys about servers that mean nothing where they stand, and one server under two names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Protocol
from urllib.parse import urlsplit

from specbench import catalog
from specbench.core.arm import ArmSpec
from specbench.engines.http.address import base_url
from specbench.errors import UsageError
from specbench.experiment.server_schema import ArmServer, Server

LAUNCH = ("command", "python", "env", "args_extra")
"""Keys that say how a server is started."""

OF_ALL = ("starts", "together")
"""Keys of [server] alone that concern servers started here."""

PORTS = {"http": 80, "https": 443}


class OnServer(Protocol):
    """An arm with a server table."""

    server: ArmServer


def names_address(data: Mapping[str, object]) -> bool:
    """Whether an experiment, not checked yet, attaches to a server."""
    arms = data.get("arm")
    tables = [data.get("server")]
    if isinstance(arms, Mapping):
        tables += [arm.get("server") for arm in arms.values() if isinstance(arm, Mapping)]
    return any(
        isinstance(table, Mapping) and bool(table.get("url") or table.get("plain_url"))
        for table in tables
    )


def attached(server: Server, arms: Mapping[str, OnServer]) -> bool:
    """Whether arms are attached to servers: one address makes all of them so."""
    return bool(server.url or server.plain_url or any(arm.server.url for arm in arms.values()))


def refuse_without_server(engine: str | None, server: Server, arms: Mapping[str, OnServer]) -> None:
    """Refuse server tables where the engine is no server.

    Args:
        engine: as the experiment names it; None where it names none.

    Raises:
        UsageError: an unknown engine, or a key of a server table.
    """
    if engine is not None:
        catalog.entry("engines", engine)
    tables = [
        ("server", server),
        *((f"arm.{name}.server", arm.server) for name, arm in arms.items()),
    ]
    keys = [f"{place}.{key}" for place, table in tables for key in sorted(table.model_fields_set)]
    if not keys:
        return
    if engine is None:
        raise UsageError(
            f'{keys[0]} is set, but the engine is not: engine = "vllm" is missing',
            f"write it at the top of the file, with one of {', '.join(catalog.SERVERS)}",
        )
    raise UsageError(
        f"{keys[0]} is for engines that are servers, not {engine}",
        f"remove it, or write engine = one of {', '.join(catalog.SERVERS)}",
    )


def refuse_idle(server: Server, arms: Mapping[str, OnServer]) -> None:
    """Refuse keys that nothing would read: those that start a server beside an address, and those
    of an address that is not given.

    Raises:
        UsageError: names the key.
    """
    own = {f"arm.{name}.server": arm.server for name, arm in arms.items()}
    if attached(server, arms):
        idle = chain(
            _given("server", server, (*LAUNCH, *OF_ALL)),
            *(_given(place, table, LAUNCH) for place, table in own.items()),
        )
        for key in idle:
            raise UsageError(
                f"{key} is for servers that are started here, but the arms are attached by url",
                "remove it, or every url",
            )
        if not server.plain_url:
            for key in _given("server", server, ("plain_metrics_urls",)):
                raise UsageError(f"{key} without server.plain_url", "give both, or none")
        _refuse_unread_url(server, arms)
        return
    metrics = chain(
        _given("server", server, ("metrics_urls", "plain_metrics_urls")),
        *(_given(place, table, ("metrics_urls",)) for place, table in own.items()),
    )
    for key in metrics:
        raise UsageError(
            f"{key} is for attached servers, but no url is given",
            "give the url of the server too, or remove it: servers started here are known",
        )


def _given(place: str, table: ArmServer | Server, names: Sequence[str]) -> list[str]:
    # Files of runs hold every key: empty says the same as left out.
    return [f"{place}.{name}" for name in names if getattr(table, name) not in (None, [], {})]


def _refuse_unread_url(server: Server, arms: Mapping[str, OnServer]) -> None:
    if server.url and arms and all(arm.server.url for arm in arms.values()):
        raise UsageError(
            f"server.url = {server.url} is no arm's: each has an address of its own",
            "remove it, or the url of the one arm that is there",
        )


def refuse_same_place(arms: Sequence[ArmSpec]) -> None:
    """Refuse a plain arm at the address of another arm: one server cannot be both.

    Raises:
        UsageError: names the arm and the address.
    """
    plain = next((arm for arm in arms if arm.plain), None)
    if plain is None:
        return
    place = _place(str(plain.server["url"]))
    for arm in arms:
        if arm is not plain and _place(str(arm.server["url"])) == place:
            raise UsageError(
                f"plain and arm {arm.name} are the same server: {arm.server['url']}",
                "plain_url (--plain-url) is for a second server of the same model, without "
                "speculation; leave it out where there is none",
            )


def _place(url: str) -> tuple[str, int, str]:
    parts = urlsplit(base_url(url))
    host = (parts.hostname or "").removesuffix(".")
    port = parts.port or PORTS[parts.scheme]
    return "127.0.0.1" if host == "localhost" else host, port, parts.path
