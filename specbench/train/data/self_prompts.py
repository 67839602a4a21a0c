"""Prompts that the target writes itself: the words it expects from a user (Magpie, 2406.08464).

An aligned model that is given its chat template up to the place where a user's words begin goes on
with such words. An opener, the first words of a request, steers what they are about.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from specbench.core.prompt import Message
from specbench.core.request import Sampling
from specbench.errors import PrerequisiteError
from specbench.metrics.degenerate import ITEM_LIMIT, repeated_share
from specbench.train.data.target_answers import Answering, refuse_failed, request_of

_PLACE = "[the words of the user]"
SHORTEST = 12
"""Characters behind the opener under which nothing was asked."""

_INSTEAD = 'leave out [[data.prompts]] with source = "self"; "library" and "suite" need no template'


def beginning(target: Answering, system: str) -> str:
    """The chat template's text before a user's words.

    Raises:
        PrerequisiteError: a template that does not show the user's words as they are, or puts
            nothing before them.
    """
    messages: list[Message] = [{"role": "system", "content": system}] if system else []
    text = target.render([*messages, {"role": "user", "content": _PLACE}]).text
    before, found, _ = text.partition(_PLACE)
    if not found:
        raise PrerequisiteError(
            "the chat template changes the user's words, so the target cannot write prompts itself",
            _INSTEAD,
        )
    if not before.strip():
        raise PrerequisiteError(
            "the chat template puts nothing before the user's words, so the target does not know "
            "whose words to write",
            _INSTEAD,
        )
    return before


def self_prompts(
    target: Answering,
    openers: Mapping[str, str],
    *,
    system: str,
    sampling: Sampling,
    longest: int,
    batch: int,
    seed: int,
) -> Iterator[tuple[str, str | None]]:
    """Names and texts of prompts as they are written; None where nothing usable was.

    Args:
        target: writes them.
        openers: name of each prompt, which its random numbers follow from -> its first words.
        system: system message before them; empty for the template's own.
        sampling: how the words are drawn.
        longest: tokens; a text that is not at its end by then is kept as it is.
        batch: prompts that are written at a time.
        seed: of the recipe.

    Raises:
        PrerequisiteError: see ``beginning``.
        SpecbenchError: the target failed, for example for want of memory.
    """
    before = beginning(target, system)
    stops = target.stops()
    requests = [
        request_of(name, target.encode(before + first), sampling, longest, stops, seed)
        for name, first in openers.items()
    ]
    for trace in target.run(requests, batch):
        # One that failed is no unusable prompt: it is to be written when the target can.
        refuse_failed(trace, "writing")
        name = trace.key.item
        sound = repeated_share(trace.output_ids) <= ITEM_LIMIT
        usable = sound and len(trace.text.strip()) >= SHORTEST
        yield name, (openers[name] + trace.text).strip() if usable else None
