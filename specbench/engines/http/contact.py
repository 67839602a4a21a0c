"""The first words with a server: is it there, which models has it, how long may a prompt be."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from specbench.catalog import nearest
from specbench.engines.http.address import base_url
from specbench.engines.http.client import Client, Exchange
from specbench.engines.http.faults import Fault, FaultKind
from specbench.engines.http.options import ServerOptions
from specbench.engines.http.protocol import Served
from specbench.errors import PrerequisiteError, UsageError

PATIENCE_S = 30.0
"""How long a server may take for a page about itself."""

INFO_PAGES: Mapping[str, tuple[str, ...]] = {
    "vllm": ("/version",),
    "trtllm": ("/version",),
    "sglang": ("/server_info", "/get_server_info"),
    "llamacpp": ("/props",),
}
"""Pages that say what a server is, by dialect; the first that answers counts."""

HINTS: Mapping[FaultKind, str] = {
    FaultKind.DNS: "check the host in the address",
    FaultKind.REFUSED: "nothing listens there: start the server, or check host and port",
    FaultKind.UNREACHABLE: "check host, port and network",
    FaultKind.SLOW_CONNECT: "check host and port, or raise [server] connect_timeout_s",
    FaultKind.TLS: "check http:// or https://; name your certificates with [server] ca_file, "
    "or set verify_tls = false",
    FaultKind.NOT_HTTP: "another kind of server listens there; check port and http:// or https://",
    FaultKind.CLOSED: "something listens there but hangs up; check port and http:// or https://",
    FaultKind.IDLE: "it does not answer; see its log",
    FaultKind.TOTAL: "it does not answer; see its log",
}


async def meet(client: Client, url: str, options: ServerOptions, dialect: str) -> Served:
    """Ask a server about itself.

    Args:
        url: as the experiment gives it.

    Raises:
        UsageError: it has no model of the asked name, or several and none was named.
        PrerequisiteError: it cannot be reached, refuses the key, or has no list of models and none
            was named.
    """
    url = base_url(url)
    listed = await client.get(url + "/v1/models", PATIENCE_S)
    _refuse_fault(url, listed, options)
    models = _models(listed)
    chosen = _chosen(url, models, options.model, listed)
    info = await _info(client, url, dialect)
    found = models.get(chosen, {})
    return Served(url, chosen, _context(found, info), _version(info), _facts(models, found, info))


def unreachable(url: str, fault: Fault, options: ServerOptions) -> PrerequisiteError:
    """What to tell a person about a server that cannot be used."""
    if fault.status in (401, 403):
        variable = options.key_variable
        told = "was refused" if options.key else "is not set"
        return PrerequisiteError(
            f"server {url} wants an API key, and the one in {variable} {told} ({fault.text})",
            f"type: export {variable}=YOUR_KEY, or name another variable with [server] api_key_env",
        )
    hint = HINTS.get(fault.kind, "see the server's log")
    return PrerequisiteError(f"server {url}: {fault.text}", hint)


def _refuse_fault(url: str, listed: Exchange, options: ServerOptions) -> None:
    fault = listed.fault
    if fault is None:
        return
    if fault.status in (404, 405, 501):
        if options.model is not None:
            return
        raise PrerequisiteError(
            f"{url}/v1/models: {fault.text}",
            "the address must be the one before /v1; if this server has no list of models, name "
            "the model with [server] model",
        )
    raise unreachable(url, fault, options)


def _models(listed: Exchange) -> dict[str, Mapping[str, Any]]:
    data = _json(listed).get("data")
    rows = data if isinstance(data, list) else []
    return {str(row["id"]): row for row in rows if isinstance(row, dict) and "id" in row}


def _chosen(url: str, models: Mapping[str, object], asked: str | None, listed: Exchange) -> str:
    if asked is not None:
        if models and asked not in models:
            raise UsageError(
                f"server {url} has no model {asked!r} ([server] model)",
                nearest(asked, list(models)),
            )
        return asked
    if not models:
        raise PrerequisiteError(
            f"{url}/v1/models lists no models: {listed.body[:100].decode('utf-8', 'replace')!r}",
            "check the address (the part before /v1), or name the model with [server] model",
        )
    if len(models) > 1:
        raise UsageError(
            f"server {url} has {len(models)} models: {', '.join(sorted(models)[:10])}",
            "name one with [server] model",
        )
    return next(iter(models))


async def _info(client: Client, url: str, dialect: str) -> Mapping[str, Any]:
    for page in INFO_PAGES.get(dialect, ()):
        answer = await client.get(url + page, PATIENCE_S)
        if answer.fault is None and (found := _json(answer)):
            return found
    return {}


def _context(model: Mapping[str, Any], info: Mapping[str, Any]) -> int | None:
    """Largest prompt plus output of one request, whatever this kind of server calls it."""
    slot = info.get("default_generation_settings")
    meta = model.get("meta")
    candidates = [
        slot.get("n_ctx") if isinstance(slot, dict) else None,
        model.get("max_model_len"),
        info.get("context_length"),
        info.get("max_model_len"),
        *((meta.get("n_ctx"), meta.get("n_ctx_train")) if isinstance(meta, dict) else ()),
    ]
    return next((n for n in candidates if isinstance(n, int) and n > 0), None)


def _version(info: Mapping[str, Any]) -> str:
    found = info.get("version") or info.get("build_info") or info.get("sglang_version") or ""
    return str(found)


def _facts(
    models: Mapping[str, object], model: Mapping[str, Any], info: Mapping[str, Any]
) -> dict[str, object]:
    """What else identifies the model; paths and settings of a server can be long and are left."""
    facts: dict[str, object] = {"models": sorted(models)}
    if isinstance(meta := model.get("meta"), dict):
        facts["model"] = {key: meta[key] for key in sorted(meta)}
    for key in ("root", "owned_by"):
        if isinstance(model.get(key), str):
            facts[key] = model[key]
    for key in ("speculative_algorithm", "speculative_num_steps", "dtype", "quantization"):
        if isinstance(info.get(key), str | int):
            facts[key] = info[key]
    return facts


def _json(answer: Exchange) -> Mapping[str, Any]:
    if answer.fault is not None:
        return {}
    try:
        found = json.loads(answer.body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
