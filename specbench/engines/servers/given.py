"""What an arm's ``server`` table says about how its server is started."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from specbench.core.arm import ArmSpec
from specbench.engines.servers.protocol import ServerPlan
from specbench.errors import UsageError
from specbench.models.locate import locate
from specbench.models.zoo import PREFIX

SECRET = re.compile(
    r"(?i)(^|[-_.])((api|access|auth|secret|private)?(key|token)"
    r"|auth(ori[sz]ation)?|bearer|secret|password|passwd|passphrase|credentials?)$"
)
"""Names whose values are keys or passwords; ``TOKENIZERS_PARALLELISM`` is none."""

HIDDEN = "***"


def words(arm: ArmSpec, key: str) -> list[str]:
    """A list of strings in the arm's ``server`` table; empty where it is not set."""
    value = arm.server.get(key, ())
    if isinstance(value, str) or not isinstance(value, list | tuple):
        raise UsageError(
            f"arm {arm.name}: server.{key} = {value!r} is not a list",
            f'write one word per entry, e.g. {key} = ["--flag", "value"]',
        )
    return [str(word) for word in value]


def variables(arm: ArmSpec) -> dict[str, str]:
    """``server.env`` of the arm."""
    value = arm.server.get("env") or {}
    if not isinstance(value, Mapping):
        raise UsageError(
            f"arm {arm.name}: server.env = {value!r} is not a table",
            'e.g. env = { CUDA_VISIBLE_DEVICES = "0" }',
        )
    return {str(name): str(content) for name, content in value.items()}


def with_folder(arm: ArmSpec) -> ArmSpec:
    """An arm as a server is told of it: a ``zoo:NAME`` gives way to its folder on this disk.

    Raises:
        UsageError, PrerequisiteError: no such head, see ``models.locate``.
    """
    model = arm.drafter_options.get("model")
    if not isinstance(model, str) or not model.startswith(PREFIX):
        return arm
    folder = str(locate(model, needs_tokenizer=False).path)
    return replace(arm, drafter_options={**arm.drafter_options, "model": folder})


def interpreter(arm: ArmSpec, otherwise: str | None = None) -> str:
    """``server.python`` of the arm, else the given interpreter, else this one."""
    return str(arm.server.get("python") or otherwise or sys.executable)


def own_command(plan: ServerPlan) -> list[str] | None:
    """``server.command`` with its placeholders filled in and ``args_extra`` behind it; None where
    the arm has none.

    Placeholders: ``{target}``, ``{host}``, ``{port}``, ``{k}``, ``{draft}`` (option ``model`` of
    the drafter), ``{context}``, ``{concurrency}``, ``{seed}``, ``{dtype}``.

    Raises:
        UsageError: a command without ``{port}`` (each server listens where it is told to), or an
            unknown placeholder.
    """
    given = words(plan.arm, "command")
    if not given:
        return None
    values = {
        "target": plan.target,
        "host": plan.host,
        "port": plan.port,
        "k": plan.arm.k,
        "draft": plan.arm.drafter_options.get("model", ""),
        "context": plan.context or "",
        "concurrency": plan.concurrency,
        "seed": plan.seed,
        "dtype": plan.dtype,
    }
    if not any("{port}" in word for word in given):
        raise UsageError(
            f"arm {plan.arm.name}: server.command does not say where {{port}} goes",
            'e.g. command = ["llama-server", "--model", "{target}", "--port", "{port}"]',
        )
    return [_filled(word, values, plan.arm.name) for word in given] + words(plan.arm, "args_extra")


def _filled(word: str, values: Mapping[str, object], arm: str) -> str:
    """Only ``{name}`` is a placeholder, so that JSON in an argument stays what it is."""

    def one(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in values:
            raise UsageError(
                f"arm {arm}: server.command has an unknown placeholder {{{name}}}",
                f"known: {', '.join(f'{{{known}}}' for known in values)}",
            )
        return str(values[name])

    return re.sub(r"\{([a-z_]+)\}", one, word)


def secret_in(words: Sequence[str]) -> str | None:
    """The first option, or name before ``=``, whose value is a key or a password; None without one.

    Words are looked into, as in ``["sh", "-c", "HF_TOKEN=... serve"]``. A value that a shell is to
    put in, as ``$HF_TOKEN``, is no secret.
    """
    parts = [part.strip("'\"") for word in words for part in word.split()]
    for part, following in zip(parts, [*parts, ""][1:], strict=True):
        name, equals, value = part.partition("=")
        if not (name.startswith("-") or equals) or not SECRET.search(name):
            continue
        if not (value if equals else following).lstrip("'\"").startswith("$"):
            return name
    return None


def secret_field(value: object, place: str = "") -> str | None:
    """The first field of nested tables that holds a text under the name of a key or a password."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            here = f"{place}.{name}" if place else str(name)
            if isinstance(inner, str) and SECRET.search(str(name)):
                return here
            if (found := secret_field(inner, here)) is not None:
                return found
    elif isinstance(value, list | tuple):
        for inner in value:
            if (found := secret_field(inner, place)) is not None:
                return found
    return None


def without_secrets(command: list[str]) -> list[str]:
    """A command line in which the values of options that hold keys or passwords are hidden."""
    shown: list[str] = []
    hide = False
    for word in command:
        option, equals, _ = word.partition("=")
        secret = option.startswith("-") and SECRET.search(option) is not None
        shown.append(HIDDEN if hide else f"{option}={HIDDEN}" if secret and equals else word)
        hide = secret and not equals
    return shown


def portable(text: str) -> str:
    """A command line without the folders of one machine: ``.`` and ``~`` stand for them."""
    return text.replace(f"{Path.cwd()}/", "./").replace(f"{Path.home()}/", "~/")


def open_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables with the values of those that hold keys or passwords hidden."""
    return {k: HIDDEN if SECRET.search(k) else v for k, v in environment.items()}


def file_in(plan: ServerPlan, name: str) -> str:
    """Where a file of ``Launcher.files`` lies."""
    return str(Path(plan.folder) / name)
