"""A suite of prompts as the rest of specbench sees it: data only, already checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Scoring:
    """How an answer is scored; which fields are set depends on ``kind``.

    Attributes:
        kind: ``python``, ``json`` or ``translation``.
        entry_point, tests: python: the function under test and the code that tests it.
        required: json: the keys that the answer must have.
        source_language, target_language, source: translation: languages and the source text.
    """

    kind: str
    entry_point: str = ""
    tests: str = ""
    required: tuple[str, ...] = ()
    source_language: str = ""
    target_language: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One conversation to be put to a model.

    Attributes:
        id: unique in its suite, stable over versions of the suite.
        category: a key of ``Suite.categories``.
        split: ``dev`` or ``test``, a stable hash of suite name and id.
        turns: what the user says, one text per turn; a text may be empty.
        system: the system message, None where there is none.
        recorded: assistant answers as recorded, for histories that are the same for every arm;
            one per turn, or one less (no answer to the last turn), or none at all.
        reference: a right answer, None where there is none.
        scoring: how an answer is scored, None where it is not.
        tags: free labels.
        passed_on: request fields that a server gets unchanged: ``tools``, ``response_format``,
            ``chat_template_kwargs``.
        context: messages of a logged conversation that are sent as they are in place of
            ``system`` and the first turn; they end in a user or tool message, and ``turns[0]``
            is the text of their last user message. Empty where system and turns say it all.
    """

    id: str
    category: str
    split: str
    turns: tuple[str, ...]
    system: str | None = None
    recorded: tuple[str, ...] = ()
    reference: str | None = None
    scoring: Scoring | None = None
    tags: tuple[str, ...] = ()
    passed_on: Mapping[str, object] = field(default_factory=dict)
    context: tuple[Mapping[str, object], ...] = ()


@dataclass(frozen=True, slots=True)
class Suite:
    """Prompts with their provenance.

    Attributes:
        name, version, title, licence: as declared; ``local`` and ``unknown`` for a bare file.
        digest: ``sha256:<hex>`` over the loaded rows, independent of BOM, CRLF and blank lines.
        max_new_tokens: default length limit of an answer.
        categories: name -> description, in the order of declaration.
        prompts: in file order.
        skipped: one reason per row that was left out; not empty only if bad rows were allowed.
    """

    name: str
    version: str
    title: str
    licence: str
    digest: str
    max_new_tokens: int
    categories: Mapping[str, str]
    prompts: tuple[Prompt, ...]
    skipped: tuple[str, ...] = ()

    @property
    def turns(self) -> int:
        """Requests that one pass over the suite sends: turns, not conversations."""
        return sum(len(prompt.turns) for prompt in self.prompts)
