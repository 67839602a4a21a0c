"""What differs between servers that are started here: command line, health, what they can do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from specbench.core.arm import ArmSpec


@dataclass(frozen=True, slots=True)
class ServerPlan:
    """One server to be started.

    Attributes:
        arm: what it decodes with; ``arm.server`` may hold ``python``, ``env``, ``command`` and
            ``args_extra``.
        target, revision, dtype, context: the model as the experiment names it; ``target`` is a
            folder or file where it was found on disk.
        host, port: where it listens.
        concurrency: most requests at a time.
        seed: of the server's own random numbers.
        prefix_cache: whether it may reuse prefixes.
        version: of the server's package; None = the one that the command lines were written for.
        folder: where ``Launcher.files`` lie; empty = the working directory.
    """

    arm: ArmSpec
    target: str
    port: int
    revision: str | None = None
    dtype: str = ""
    context: int | None = None
    host: str = "127.0.0.1"
    concurrency: int = 1
    seed: int = 1
    prefix_cache: bool = False
    version: str | None = None
    folder: str = ""


class Launcher(Protocol):
    """How one kind of server is started; each file of this folder holds one as ``LAUNCHER``."""

    name: str
    together: bool
    """Whether servers of several arms live side by side unless the experiment says otherwise."""
    health: str
    """Path that answers 200 once the server is ready."""

    @property
    def drafters(self) -> Sequence[str]:
        """Drafters it can be asked for, ``none`` among them."""
        ...

    @property
    def rules(self) -> Sequence[str]:
        """Acceptance rules it can be asked for; the first is what it does unasked."""
        ...

    def judged_by(self, drafter: str) -> Sequence[str]:
        """Those of ``rules`` that go with one of ``drafters``."""
        ...

    def check(self, arm: ArmSpec) -> None:
        """UsageError where the arm has no equivalent on this server, with what has."""
        ...

    def command(self, plan: ServerPlan) -> list[str]:
        """The full command line."""
        ...

    def files(self, plan: ServerPlan) -> dict[str, str]:
        """Name -> content of files in ``plan.folder`` that the command line names."""
        ...

    def environment(self, plan: ServerPlan) -> dict[str, str]:
        """Variables to set beside those inherited."""
        ...

    def python(self, arm: ArmSpec) -> str:
        """The interpreter that the server runs under."""
        ...

    def version(self, python: str) -> str:
        """Version of the installed package under that interpreter; PrerequisiteError if none."""
        ...
