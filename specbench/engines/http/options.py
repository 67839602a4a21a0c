"""What an engine is told about its servers, checked and typed."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from specbench.errors import PrerequisiteError

DEFAULT_KEY = "SPECBENCH_API_KEY"
"""Environment variable that holds the key unless ``api_key_env`` names another."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """When requests are sent: ``closed``, ``poisson`` (rate in requests per second), ``burst``."""

    kind: str = "closed"
    rate: float | None = None


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """The ``[server]`` table of an experiment, and what of its workload a client needs.

    Attributes:
        model: name to send with requests; None = the only one that the server lists.
        tokenizer: model whose tokenizer renders prompts; None = the target's, where it is found.
        route: ``auto``, ``ids``, ``text`` or ``chat``.
        key_variable: environment variable of the key. The key itself is read when it is sent.
        timeout_s, connect_timeout_s, idle_timeout_s: of a request, of a connection, and between
            two reads, seconds.
        retries: how often a request is sent again that failed before any token.
        prefix_cache: ``off``, ``cold`` or ``warm``.
        extra_body: fields sent unchanged in every request.
        probes: whether seed and temperature are tried out before measuring.
    """

    model: str | None = None
    tokenizer: str | None = None
    route: str = "auto"
    key_variable: str = DEFAULT_KEY
    key_required: bool = False
    timeout_s: float = 600.0
    connect_timeout_s: float = 10.0
    idle_timeout_s: float = 120.0
    ready_timeout_s: float = 600.0
    retries: int = 0
    verify_tls: bool = True
    ca_file: str | None = None
    prefix_cache: str = "off"
    extra_body: Mapping[str, object] = field(default_factory=dict)
    probes: bool = True
    concurrency: int = 1
    seed: int = 1
    arrival: Arrival = field(default_factory=Arrival)

    @property
    def key(self) -> str | None:
        """The key from the environment.

        Raises:
            PrerequisiteError: the experiment names a variable that is not set.
        """
        key = os.environ.get(self.key_variable)
        if key is None and self.key_required:
            raise PrerequisiteError(
                f"[server] api_key_env names {self.key_variable}, which is not set",
                f"type: export {self.key_variable}=..., or leave api_key_env out",
            )
        return key.strip() if key else None

    def tls(self) -> ssl.SSLContext:
        """What servers must show under https.

        Raises:
            PrerequisiteError: the certificate file cannot be read.
        """
        if self.ca_file is not None and not Path(self.ca_file).is_file():
            raise PrerequisiteError(
                f"[server] ca_file: no file {self.ca_file}", "name a file of PEM certificates"
            )
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
        except ssl.SSLError as error:
            raise PrerequisiteError(
                f"[server] ca_file {self.ca_file} holds no certificates: {error.reason or error}",
                "name a file of PEM certificates",
            ) from None
        if not self.verify_tls:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


def server_options(settings: Mapping[str, Any]) -> ServerOptions:
    """The options in the settings that an engine's factory gets; what is absent is default."""
    server = settings.get("server") or {}
    arrival = settings.get("arrival") or {}
    named = server.get("api_key_env")
    own = {
        name: server[name]
        for name in (
            *("model", "tokenizer", "route", "retries", "verify_tls", "ca_file", "prefix_cache"),
            *("timeout_s", "connect_timeout_s", "idle_timeout_s", "ready_timeout_s"),
            *("extra_body", "probes"),
        )
        if name in server
    }
    return ServerOptions(
        **own,
        key_variable=named or DEFAULT_KEY,
        key_required=named is not None,
        concurrency=int(settings.get("concurrency", 1)),
        seed=int(settings.get("seed", 1)),
        arrival=Arrival(arrival.get("kind", "closed"), arrival.get("rate")),
    )
