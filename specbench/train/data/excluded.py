"""Prompts that are evaluated on, and so never trained on."""

from __future__ import annotations

from collections.abc import Sequence

from specbench.suites.describe import text_of_prompt
from specbench.suites.loader import load_suite, select
from specbench.train.data.near import NearDuplicates

EVALUATED = ("code", "chat", "translation")
"""Suites that are measured: their prompts are left out, whatever a recipe says."""


class Excluded:
    """Prompts that must not be trained on: those of evaluation suites, by id and by wording.

    Args:
        suites: names or paths, beside those that are measured.
        judged: suites whose dev split alone is left out: those of ``validate.suites``, along whose
            dev prompts the card is drafted. All of it and not the few that ``validate.limit``
            takes: that key says nothing of the data.

    Attributes:
        digests: name of each suite -> digest of its prompts.

    Raises:
        UsageError, PrerequisiteError: as ``load_suite``.
    """

    def __init__(self, suites: Sequence[str], judged: Sequence[str] = ()) -> None:
        loaded = [load_suite(name) for name in dict.fromkeys([*EVALUATED, *suites])]
        self.digests = {suite.name: suite.digest for suite in loaded}
        prompts = [(suite.name, p) for suite in loaded for p in suite.prompts]
        for suite in map(load_suite, judged):
            prompts += [(suite.name, p) for p in select(suite, split="dev")]
        self._ids = {f"{name}/{p.id}" for name, p in prompts}
        # Each turn by itself too: a short one would be lost in a long conversation.
        self._near = NearDuplicates(
            (name, text) for name, p in prompts for text in (text_of_prompt(p), *p.turns)
        )

    def reason(self, text: str, origin: str) -> str | None:
        """Why a prompt is left out, or None; ``origin`` is its ``suite/id`` where it has one."""
        if origin in self._ids:
            return "an evaluation prompt"
        same = self._near.of(text)
        return None if same is None else f"near duplicate of a prompt in {same}"
