"""The shape of the [server] table and of the server table of an arm."""

from __future__ import annotations

import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator

from specbench.engines.servers import given

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

STORED = (
    "looks like a secret, and this file is stored with the results; set it in the environment of "
    "specbench, servers inherit it (as VLLM_API_KEY, LLAMA_API_KEY or HF_TOKEN)"
)

Seconds = Annotated[float, Field(gt=0)]
Url = Annotated[str, Field(min_length=1)]

WRITE = {
    "url": 'the address of a server, as "http://127.0.0.1:8000"',
    "plain_url": 'the address of the same server without speculation, as "http://127.0.0.1:8001"',
    "metrics_urls": 'a list of addresses, as ["http://127.0.0.1:8000/metrics"]',
    "plain_metrics_urls": 'a list of addresses, as ["http://127.0.0.1:8001/metrics"]',
    "route": '"auto", "ids", "text" or "chat"',
    "api_key_env": "the NAME of the environment variable that holds the key",
    "timeout_s": "seconds above 0",
    "connect_timeout_s": "seconds above 0",
    "idle_timeout_s": "seconds above 0",
    "ready_timeout_s": "seconds above 0",
    "retries": "a whole number of at least 0",
    "prefix_cache": '"off", "cold" or "warm"',
    "together": "true (servers of all arms side by side) or false (one after the other)",
    "starts": "a whole number of at least 1",
    "env": 'a table of strings, as env = { CUDA_VISIBLE_DEVICES = "0" }',
    "command": 'a list of words, as ["vllm", "serve", "{target}", "--port", "{port}"]',
    "args_extra": 'a list of words, as ["--enforce-eager"]',
    "probes": "true (try out seed and temperature before measuring) or false",
    "extra_body": "a table of request fields that are sent unchanged",
}


class _Launch(BaseModel):
    """What both tables share: how a server is reached or started."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    url: Url | None = None
    metrics_urls: list[Url] = Field(default_factory=list)
    python: str | None = None
    env: dict[str, str] = Field(default_factory=dict)
    command: list[str] = Field(default_factory=list)
    args_extra: list[str] = Field(default_factory=list)

    @field_validator("url", "plain_url", check_fields=False)
    @classmethod
    def _address(cls, value: str | None) -> str | None:
        return None if value is None else address(value)

    @field_validator("metrics_urls", "plain_metrics_urls", check_fields=False)
    @classmethod
    def _addresses(cls, values: list[str]) -> list[str]:
        return [address(value) for value in values]

    @field_validator("env")
    @classmethod
    def _no_secrets(cls, values: dict[str, str]) -> dict[str, str]:
        for name in values:
            if given.SECRET.search(name):
                raise ValueError(f"{name} {STORED}")
        return values

    @field_validator("command", "args_extra")
    @classmethod
    def _no_secret_words(cls, values: list[str]) -> list[str]:
        if (name := given.secret_in(values)) is not None:
            raise ValueError(f"the value of {name} {STORED}")
        return values


class ArmServer(_Launch):
    """The server table of an arm: where it is served, or what starts it."""


class Server(_Launch):
    """The [server] table: what holds for the servers of all arms."""

    plain_url: Url | None = None
    plain_metrics_urls: list[Url] = Field(default_factory=list)
    model: str | None = None
    tokenizer: str | None = None
    route: Literal["auto", "ids", "text", "chat"] = "auto"
    api_key_env: str | None = None
    timeout_s: Seconds = 600.0
    connect_timeout_s: Seconds = 10.0
    idle_timeout_s: Seconds = 120.0
    ready_timeout_s: Seconds = 600.0
    retries: Annotated[int, Field(ge=0)] = 0
    verify_tls: bool = True
    ca_file: str | None = None
    prefix_cache: Literal["off", "cold", "warm"] = "off"
    together: bool | None = None
    starts: Annotated[int, Field(ge=1)] | None = None
    extra_body: dict[str, object] = Field(default_factory=dict)
    probes: bool = True

    @field_validator("api_key_env")
    @classmethod
    def _name_of_a_variable(cls, value: str | None) -> str | None:
        if value is not None and not VARIABLE.fullmatch(value):
            raise ValueError("not the name of an environment variable")
        return value

    @field_validator("extra_body")
    @classmethod
    def _no_secret_fields(cls, values: dict[str, object]) -> dict[str, object]:
        if (name := given.secret_field(values)) is not None:
            raise ValueError(
                f"{name} looks like a secret, and this file is stored with the results; put the "
                "key into an environment variable and name that with api_key_env"
            )
        return values

    def launch(self, own: ArmServer) -> dict[str, object]:
        """How the server of an arm is started: what holds for all, and what the arm says."""
        return {
            "python": own.python or self.python,
            "env": {**self.env, **own.env},
            "command": own.command or self.command,
            "args_extra": [*self.args_extra, *own.args_extra],
        }


def address(text: str) -> str:
    """A checked address without a slash at its end; ValueError says what is wrong with it."""
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("not an address of a server")
    if parts.username or parts.password:
        raise ValueError(
            "holds a user name or a password; give the key in an environment variable "
            "(api_key_env) instead"
        )
    if "?" in text or "#" in text:
        # Keys are given like that, and paths are added behind the address.
        raise ValueError(
            "holds a query or a fragment; leave it out, and give a key in an environment variable "
            "(api_key_env)"
        )
    return text.rstrip("/")
