"""What every engine and replay in this process takes from the target that it stands on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from specbench.core.prompt import Message, RenderedPrompt
from specbench.core.request import Stops
from specbench.errors import SpecbenchError
from specbench.models.opened import OpenedTarget
from specbench.models.vocabulary import real_ids


class OnTarget:
    """Something that runs on one opened target.

    Args:
        opened: the target.
    """

    def __init__(self, opened: OpenedTarget) -> None:
        self._opened = opened
        self.context_limit = opened.loaded.context_limit

    @property
    def opened(self) -> OpenedTarget:
        """The target itself: its facts, its tokenizer."""
        return self._opened

    @property
    def tie_tolerance(self) -> float:
        """Largest top-2 margin that rounding can flip: twice the measured verify error."""
        return self._opened.tie_tolerance

    def render(
        self, messages: Sequence[Message], passed_on: Mapping[str, object] | None = None
    ) -> RenderedPrompt:
        """Chat template and tokenisation, see ``suites.templates.render``."""
        return self._opened.render(messages, passed_on)

    def stops(self, strings: Sequence[str] = ()) -> Stops:
        """The target's end-of-answer ids and the given strings."""
        return self._opened.stops(strings)


class OnRecords(OnTarget):
    """Something that puts recorded outputs before its target.

    Args:
        opened: the target.
        role: what messages call it.
    """

    def __init__(self, opened: OpenedTarget, role: str) -> None:
        super().__init__(opened)
        self._role = role
        self._shortest = role
        self._known = frozenset(
            i for i in real_ids(opened.loaded.tokenizer) if i < opened.vocabulary
        )
        self.weight_hash = opened.loaded.weight_hash

    def limit_context(self, limit: int, role: str) -> None:
        """Take nothing longer than a second model's context, which messages call ``role``."""
        if limit < self.context_limit:
            self.context_limit, self._shortest = limit, role

    def encode(self, text: str) -> list[int]:
        """Token ids of a text, without special tokens."""
        tokenizer = self._opened.loaded.tokenizer
        return [int(i) for i in tokenizer.encode(text, add_special_tokens=False)]

    def refuse(self, prompt_tokens: int, output: Sequence[int]) -> None:
        """Raise SpecbenchError for an output that the target cannot be put behind.

        Args:
            prompt_tokens: length of its prompt.
            output: recorded ids.
        """
        for token in output:
            if token not in self._known:
                raise SpecbenchError(
                    f"output id {token} has no token in the {self._role}'s vocabulary",
                    f"name a {self._role} with the tokenizer of the run's target",
                )
        length = prompt_tokens + len(output)
        if length > self.context_limit:
            raise SpecbenchError(
                f"prompt and output have {length} tokens, "
                f"the {self._shortest}'s context {self.context_limit}",
                f"name a {self._shortest} with a longer context",
            )
