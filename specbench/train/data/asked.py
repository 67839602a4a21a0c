"""A prompt of training, and the conversation that the target made of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Asked:
    """One conversation that ends with a user's turn.

    Attributes:
        id: unique in its data folder: name of the source, a dash, a number or the id there.
        source: name of the ``[[data.prompts]]`` table that it came from.
        messages: as chat templates take them.
    """

    id: str
    source: str
    messages: tuple[Mapping[str, str], ...]

    @property
    def text(self) -> str:
        """What was written in all turns of users."""
        return "\n\n".join(m["content"] for m in self.messages if m["role"] == "user")

    def record(self) -> dict[str, object]:
        """As a line of ``prompts.jsonl``."""
        return {"id": self.id, "source": self.source, "messages": [dict(m) for m in self.messages]}

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Asked:
        """From a line of ``prompts.jsonl``."""
        return cls(record["id"], record["source"], tuple(record["messages"]))


@dataclass(frozen=True, slots=True)
class Answered:
    """A conversation as token ids, and how the target answered.

    Attributes:
        id, source: of the prompt.
        prompt: ids after the chat template.
        answer: ids that the target emitted, the one that ended the answer included.
        temperature: at which it was drawn.
        finish: ``eos`` or ``length``; ``loop`` where the rest began to repeat and was cut off;
            ``long`` where the prompt was too long to be asked, which has no ids at all.
    """

    id: str
    source: str
    prompt: tuple[int, ...]
    answer: tuple[int, ...]
    temperature: float
    finish: str

    def record(self) -> dict[str, object]:
        """As a line of ``answers.jsonl``."""
        return asdict(self)

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Answered:
        """From a line of ``answers.jsonl``."""
        return cls(
            record["id"],
            record["source"],
            tuple(record["prompt"]),
            tuple(record["answer"]),
            record["temperature"],
            record["finish"],
        )
