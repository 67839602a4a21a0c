"""From a prompt and the conditions of a run to a request, or the reason why none is sent."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from specbench.core.prompt import Message
from specbench.core.request import Limits, Request, RequestKey, Sampling
from specbench.core.suite import Prompt
from specbench.engines.protocol import Engine, RenderedPrompt
from specbench.errors import SpecbenchError
from specbench.suites.templates import messages_for_turn

UNKNOWN_CONTEXT = 1 << 30
"""An engine whose context limit is at least this says that it does not know it."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """What is equal for every arm of a run.

    Attributes:
        samplings: one per temperature.
        history: whose answers a later turn sees: ``plain``, ``own`` or ``fixed`` (recorded).
        context: declared context limit in tokens, None = the engine's own.
        open_arrivals: requests are due at times of their own (Poisson, burst).
    """

    samplings: tuple[Sampling, ...]
    max_new_tokens: int
    history: str = "plain"
    repeats: int = 1
    concurrency: tuple[int, ...] = (1,)
    seed: int = 1
    warmup: int = 1
    stop: tuple[str, ...] = ()
    context: int | None = None
    open_arrivals: bool = False


@dataclass(frozen=True, slots=True)
class Unsent:
    """A request that never reaches the engine; ``failed`` where that is an error of the item."""

    reason: str
    prompt_tokens: int = 0
    prompt_hash: str = ""
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Ready:
    """A request with the hash of its rendered prompt."""

    request: Request
    prompt_hash: str


def request_seed(seed: int, key: RequestKey) -> int:
    """The request's random seed: the same for every arm and temperature, stable everywhere."""
    parts = f"{seed}\x1f{key.suite}\x1f{key.item}\x1f{key.turn}\x1f{key.repeat}"
    return int.from_bytes(hashlib.sha256(parts.encode()).digest()[:8], "big") >> 1


def context_limit(engine: Engine, conditions: Conditions) -> int | None:
    """The smaller of the engine's and the declared context limit; None where neither is known."""
    known = [
        limit
        for limit in (conditions.context, engine.context_limit)
        if limit is not None and limit < UNKNOWN_CONTEXT
    ]
    return min(known, default=None)


def check_prompts(engine: Engine, selection: Mapping[str, Sequence[Prompt]]) -> RenderedPrompt:
    """The first prompt that can be rendered, before anything is measured.

    Raises:
        SpecbenchError: the first refusal, if no prompt at all can be rendered: then a template or
            a policy is wrong, not an item.
    """
    first: SpecbenchError | None = None
    for prompts in selection.values():
        for prompt in prompts:
            try:
                return _rendered(engine, prompt, messages_for_turn(prompt, 0, ()))
            except SpecbenchError as error:
                first = first or error
    raise first or SpecbenchError("no prompts are selected")


def build_request(
    engine: Engine,
    conditions: Conditions,
    prompt: Prompt,
    key: RequestKey,
    sampling: Sampling,
    answers: Sequence[str],
    max_new_tokens: int | None = None,
) -> Ready | Unsent:
    """Render one turn and check that it can be sent: nothing is ever cut to fit.

    The request holds the conversation beside its token ids: routes that take no ids need it.
    Where no tokenizer is at hand the length is not known before the server counts it; then only
    an empty text is held back.
    """
    try:
        messages = messages_for_turn(prompt, key.turn, answers)
        rendered = _rendered(engine, prompt, messages)
    except SpecbenchError as error:
        return Unsent(f"prompt cannot be rendered: {error.message}", failed=True)
    limit = context_limit(engine, conditions)
    reason = _without_room(rendered, limit)
    if reason:
        return Unsent(reason, len(rendered.token_ids), rendered.digest)
    request = Request(
        key=key,
        token_ids=tuple(rendered.token_ids),
        sampling=sampling,
        limits=Limits(max_new_tokens or conditions.max_new_tokens, context=limit),
        stops=engine.stops(conditions.stop),
        seed=request_seed(conditions.seed, key),
        messages=tuple(messages),
        passed_on=prompt.passed_on,
    )
    return Ready(request, rendered.digest)


def _rendered(engine: Engine, prompt: Prompt, messages: Sequence[Message]) -> RenderedPrompt:
    """The prompt as the engine sees it; tools and template options change its text."""
    if prompt.passed_on:
        return engine.render(messages, prompt.passed_on)
    return engine.render(messages)


def _without_room(rendered: RenderedPrompt, limit: int | None) -> str:
    """Why a prompt cannot be sent; empty where it can."""
    if not rendered.tokenised:
        return "" if rendered.text else "skipped: empty prompt"
    length = len(rendered.token_ids)
    if length == 0:
        return "skipped: empty prompt"
    if limit is None or length < limit:
        return ""
    return "skipped: no room" if length == limit else f"skipped: prompt {length} > context {limit}"
