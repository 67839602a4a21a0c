"""What differs between servers that score tokens: how a row of probabilities is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from specbench.errors import SpecbenchError
from specbench.fidelity.kept import TopRow


def other_kind(what: str) -> SpecbenchError:
    """The error for an answer that is none of the kind of server that was named."""
    return SpecbenchError(what, "name the kind of server with --reference-engine")


class Ask(Protocol):
    """Sends one JSON body to a server."""

    def __call__(self, path: str, body: Mapping[str, object]) -> dict[str, Any]:
        """The answer; SpecbenchError where the server refuses or says something else."""
        ...


class Scorer(Protocol):
    """One kind of server; each file of this folder that has one holds it as ``SCORER``."""

    name: str
    top: int
    """Tokens per position to ask for unless told otherwise: what the server allows by default."""
    rounding: float
    """By how much the probabilities of a whole row may fail to add up to 1."""

    def rows(
        self,
        ask: Ask,
        model: str,
        prompt: Sequence[int],
        output: Sequence[int],
        top: int,
        vocabulary: int | None,
    ) -> list[TopRow]:
        """The row that each output token follows, at temperature 1 and untruncated.

        Args:
            ask: sends a request to the server.
            model: name to send.
            prompt, output: token ids.
            top: how many tokens of each row to list.
            vocabulary: how many tokens a row has; None = not known. Above temperature 1 only this
                bounds what is not listed.

        Raises:
            SpecbenchError: the answer is not one of this kind of server.
        """
        ...
