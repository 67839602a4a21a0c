"""Prompts that are evaluated on, and so never trained on."""

from __future__ import annotations

from collections.abc import Sequence

from specbench.suites.describe import text_of_prompt
from specbench.suites.loader import load_suite
from specbench.train.data.near import NearDuplicates

EVALUATED = ("code", "chat", "translation")
"""Suites that are measured: their prompts are left out, whatever a recipe says."""


class Excluded:
    """Prompts that must not be trained on: those of evaluation suites, by id and by wording.

    Args:
        suites: names or paths, beside those that are measured.

    Attributes:
        digests: name of each suite -> digest of its prompts.

    Raises:
        UsageError, PrerequisiteError: as ``load_suite``.
    """

    def __init__(self, suites: Sequence[str]) -> None:
        loaded = [load_suite(name) for name in dict.fromkeys([*EVALUATED, *suites])]
        self.digests = {suite.name: suite.digest for suite in loaded}
        self._ids = {f"{suite.name}/{p.id}" for suite in loaded for p in suite.prompts}
        # Each turn by itself too: a short one would be lost in a long conversation.
        self._near = NearDuplicates(
            (suite.name, text)
            for suite in loaded
            for p in suite.prompts
            for text in (text_of_prompt(p), *p.turns)
        )

    def reason(self, text: str, origin: str) -> str | None:
        """Why a prompt is left out, or None; ``origin`` is its ``suite/id`` where it has one."""
        if origin in self._ids:
            return "an evaluation prompt"
        same = self._near.of(text)
        return None if same is None else f"near duplicate of a prompt in {same}"
