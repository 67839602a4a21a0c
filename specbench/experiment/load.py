"""Finds an experiment (built-in name, file or flags alone) and applies what the command line says.

Order of precedence: file, then flags, then ``--set``.
"""

from __future__ import annotations

import copy
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from specbench.catalog import SERVERS, entry, nearest
from specbench.core.manifest import canonical
from specbench.errors import PrerequisiteError, UsageError
from specbench.experiment.schema import Experiment, check
from specbench.experiment.server_keys import names_address
from specbench.experiment.values import SCHEMA_VERSION
from specbench.measure.environment import without_secrets
from specbench.models.locate import DEMO_MODEL

BARE_WORD = re.compile(r"^[A-Za-z_./][\w./:@+-]*$")
DEFAULT_SPECULATION = 5
SERVED = "served"
"""Target of an experiment that takes what the attached server serves."""

Data = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Flags:
    """What flags say; None and empty mean not given."""

    engine: str | None = None
    target: str | None = None
    drafter: str | None = None
    draft: str | None = None
    k: int | None = None
    rules: tuple[str, ...] = ()
    suites: tuple[str, ...] = ()
    temperatures: tuple[float, ...] = ()
    limit: int | None = None
    split: str | None = None
    max_new_tokens: int | None = None
    concurrency: tuple[int, ...] = ()
    seed: int | None = None
    repeats: int | None = None
    allow_lossy: bool | None = None
    url: str | None = None
    plain_url: str | None = None
    metrics_urls: tuple[str, ...] = ()
    tokenizer: str | None = None
    template: str | None = None
    arrival: str | None = None
    rate: float | None = None

    @property
    def given(self) -> bool:
        """Whether any flag changes the experiment."""
        return self != Flags()


@dataclass(frozen=True, slots=True)
class Loaded:
    """A checked experiment; ``passed`` is its text as it was given, overrides in comments."""

    experiment: Experiment
    passed: str


def builtin_names() -> list[str]:
    """Names of the experiments that ship with specbench."""
    folder = files("specbench.experiment") / "builtin"
    return sorted(
        entry.name.removesuffix(".toml")
        for entry in folder.iterdir()
        if entry.name.endswith(".toml")
    )


def load_experiment(source: str | None, flags: Flags, settings: Sequence[str] = ()) -> Loaded:
    """Read, override and check an experiment.

    Args:
        source: built-in name or path; None where flags alone say everything.
        flags: see ``Flags``.
        settings: ``dotted.key=value`` with a TOML value; a bare word is a string.

    Raises:
        UsageError: unknown name, wrong file, key or value.
        PrerequisiteError: no such file.
    """
    if not source:
        _require_url(flags, {})
    if not source and not flags.target and not flags.url:
        raise UsageError(
            "nothing to run: no experiment, no --target and no --url",
            f"built-in experiments: {', '.join(builtin_names())}; or give a .toml file",
        )
    text, place = _read(source) if source else (_flags_only(), "command line")
    try:
        data: Data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{place}: not TOML: {error}", "correct the line") from error
    if source and not flags.given and not settings:
        return Loaded(check(data, place), text)
    changed = copy.deepcopy(data)
    _apply_flags(changed, flags)
    for setting in settings:
        _apply_setting(changed, setting)
    where = f"{place} with flags" if source else place
    kept = without_secrets(settings)
    comments = [f"# flags: {canonical(_given(flags))}", *(f"# --set {text}" for text in kept)]
    return Loaded(check(changed, where), "\n".join([*comments, text]))


def _read(source: str) -> tuple[str, str]:
    if source in builtin_names():
        entry = files("specbench.experiment") / "builtin" / f"{source}.toml"
        return entry.read_text(encoding="utf-8"), f"experiment {source}"
    path = Path(source)
    if path.suffix != ".toml" and not path.exists():
        raise UsageError(f"unknown experiment {source!r}", nearest(source, builtin_names()))
    try:
        return path.read_bytes().decode("utf-8-sig"), source
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{source}: byte {error.start} is not UTF-8", "save it as UTF-8"
        ) from error
    except OSError as error:
        raise PrerequisiteError(
            f"cannot read experiment {source}: {error.strerror}",
            f"give a .toml file or a built-in name: {', '.join(builtin_names())}",
        ) from error


def _flags_only() -> str:
    return f"schema_version = {SCHEMA_VERSION}\n[target]\n[workload]\n"


def _given(flags: Flags) -> Data:
    values = {name: getattr(flags, name) for name in Flags.__dataclass_fields__}
    return {name: value for name, value in values.items() if value not in (None, ())}


def _apply_flags(data: Data, flags: Flags) -> None:
    workload, target = data.setdefault("workload", {}), data.setdefault("target", {})
    simple = {
        "limit": flags.limit,
        "split": flags.split,
        "max_new_tokens": flags.max_new_tokens,
        "seed": flags.seed,
        "repeats": flags.repeats,
        "arrival": flags.arrival,
        "rate": flags.rate,
    }
    lists = {
        "suites": flags.suites,
        "temperatures": flags.temperatures,
        "concurrency": flags.concurrency,
    }
    workload.update({key: value for key, value in simple.items() if value is not None})
    workload.update({key: list(values) for key, values in lists.items() if values})
    if flags.target is not None:
        target["model"] = flags.target
    if flags.template is not None:
        target["template"] = flags.template
    if flags.engine is not None:
        data["engine"] = flags.engine
    if flags.allow_lossy:
        data["allow_lossy"] = True
    _apply_server_flags(data, flags)
    _apply_arm_flags(data, flags)


def _require_url(flags: Flags, data: Data) -> None:
    """A plain server is the base of a speed-up: there must be another one."""
    if flags.plain_url and not flags.url and not names_address(data):
        raise UsageError(
            "--plain-url without --url: it is for the same server without speculation",
            "add --url URL, the server that speculates; a server alone is given by --url",
        )


def _absolute(model: str | None) -> str | None:
    """A folder by its full path: the run is read again from elsewhere."""
    if model is None or model == DEMO_MODEL:
        return model
    path = Path(model).expanduser()
    return str(path.resolve()) if path.exists() else model


def _apply_server_flags(data: Data, flags: Flags) -> None:
    given = {
        "url": flags.url,
        "plain_url": flags.plain_url,
        "metrics_urls": list(flags.metrics_urls) or None,
        "tokenizer": _absolute(flags.tokenizer),
    }
    given = {name: value for name, value in given.items() if value is not None}
    if not given:
        return
    engine, flag = data.get("engine"), next(iter(given)).replace("_", "-").removesuffix("s")
    if engine is None:
        raise UsageError(f"--{flag} needs --engine NAME", f"one of {', '.join(SERVERS)}")
    if engine not in SERVERS:
        entry("engines", str(engine))
        raise UsageError(
            f"--{flag} needs an engine that is a server, not {engine}",
            f"add --engine NAME, one of {', '.join(SERVERS)}",
        )
    _require_url(flags, data)
    data.setdefault("server", {}).update(given)
    # The name that the server gives its model is asked for at first contact.
    data["target"].setdefault("model", flags.target or SERVED)


def _apply_arm_flags(data: Data, flags: Flags) -> None:
    if flags.drafter or flags.draft:
        drafter = flags.drafter or "draft_model"
        arm: Data = {"drafter": drafter, "k": DEFAULT_SPECULATION}
        if flags.draft:
            arm["options"] = {"model": flags.draft}
        data["arm"] = {} if drafter == "none" else {drafter: arm}
    arms: Data = data.get("arm", {})
    if not arms and (flags.k is not None or flags.rules):
        raise UsageError("-k and --rule need an arm that drafts", "add --drafter NAME")
    if flags.k is not None:
        for arm in arms.values():
            arm["k"] = flags.k
    if len(flags.rules) == 1:
        for arm in arms.values():
            arm["rule"] = flags.rules[0]
    elif flags.rules:
        data["arm"] = {
            f"{name}-{rule}": {**copy.deepcopy(arm), "rule": rule}
            for name, arm in arms.items()
            for rule in flags.rules
        }


def _apply_setting(data: Data, setting: str) -> None:
    key, equals, text = setting.partition("=")
    parts = key.strip().split(".")
    if not equals or not all(parts):
        raise UsageError(f"--set {setting}: not KEY=VALUE", "write for example --set arm.ngram.k=5")
    arms = list(data.get("arm", {}))
    if parts[0] == "arm" and len(parts) > 2 and parts[1] not in arms and parts[2] != "drafter":
        raise UsageError(f"--set {setting}: no arm {parts[1]!r}", nearest(parts[1], arms))
    table = data
    for part in parts[:-1]:
        inner = table.setdefault(part, {})
        if not isinstance(inner, dict):
            raise UsageError(f"--set {setting}: {part!r} is a value, not a table")
        table = inner
    table[parts[-1]] = _toml_value(setting, text.strip())


def _toml_value(setting: str, text: str) -> object:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError as error:
        if BARE_WORD.match(text):
            return text
        raise UsageError(
            f"--set {setting}: {text!r} is not a TOML value",
            'write 5, 0.7, true, "text" or ["code", "chat"]',
        ) from error
