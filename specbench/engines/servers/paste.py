"""The commands that start the servers of an experiment, for people who start them by hand."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence

from specbench.core.arm import ArmSpec
from specbench.engines.servers import given
from specbench.engines.servers.protocol import Launcher, ServerPlan


def pasteable(
    launcher: Launcher,
    target: str,
    arms: Sequence[ArmSpec],
    *,
    port: int = 8000,
    dtype: str = "",
    context: int | None = None,
    concurrency: int = 1,
) -> list[str]:
    """One piece of shell per arm, in the order of ``arms``; the ports count up from ``port``.

    Each starts what ``specbench run`` would start for that arm, files included, in the newest
    version that the launcher was written for.

    Raises:
        UsageError: an arm has no equivalent on this kind of server.
    """
    pieces = []
    for place, arm in enumerate(arms):
        launcher.check(arm)
        plan = ServerPlan(
            arm, target, port + place, dtype=dtype, context=context, concurrency=concurrency
        )
        lines = [
            f"cat > {shlex.quote(name)} <<'END'\n{content}END"
            for name, content in launcher.files(plan).items()
        ]
        extra = {**launcher.environment(plan), **given.variables(arm)}
        shown = given.open_variables(extra).items()
        start = [f"{name}={shlex.quote(value)}" for name, value in shown]
        command = given.without_secrets(launcher.command(plan))
        lines.append(_wrapped([*start, *map(_word, command)]))
        pieces.append("\n".join(lines))
    return pieces


def _word(word: str) -> str:
    # Which interpreter this is, is nobody's business elsewhere.
    return "python" if word == sys.executable else shlex.quote(word)


def _wrapped(words: Sequence[str]) -> str:
    """Options with their values on lines of their own."""
    lines = [""]
    for word in words:
        if word.startswith("--"):
            lines.append(f"  {word}")
        else:
            lines[-1] = f"{lines[-1]} {word}" if lines[-1] else word
    return " \\\n".join(lines)
