"""What servers of several kinds write for the same generated tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from tests.engines.fake_server.events import DONE, chat, event, text, usage, usage_only
from tests.engines.fake_server.speculation import Spoken, Step
from tests.engines.fake_server.table_model import END, text_of

Events = list[tuple[int, bytes]]
"""(index of the step at whose time the event is written, its bytes)."""


class Voice(Protocol):
    """Events of a streamed answer, and the document of one that is not streamed."""

    def __call__(
        self, path: str, asked: Mapping[str, object], spoken: Spoken
    ) -> tuple[Events, object]: ...


def visible(spoken: Spoken, ids: Sequence[int]) -> str:
    """Text of a first part of the output, cut before a stop string."""
    said = text_of(ids)
    return said.partition(spoken.stopped_by)[0] if spoken.stopped_by else said


def openai(path: str, asked: Mapping[str, object], spoken: Spoken) -> tuple[Events, object]:
    """Chat and completions: one event per step, then finish, usage if asked for, and the end mark.

    Fields of vLLM where they are asked for: ``return_token_ids``, ``continuous_usage_stats``; of
    llama.cpp: ``timings_per_token``, with one event per token.
    """
    options = asked.get("stream_options")
    options = options if isinstance(options, dict) else {}
    finish = "length" if spoken.finish == "length" else "stop"
    chatty = path.endswith("/chat/completions")
    say = chat if chatty else text
    events: Events = [(0, chat("", role="assistant"))] if chatty else []
    ids: list[int] = []
    for index, step in enumerate(spoken.steps):
        for tokens in _pieces(step, asked):
            before = visible(spoken, ids)
            ids += tokens
            more, beside = _extras(chatty, tokens, len(ids), index, asked, spoken)
            counted = None
            if options.get("continuous_usage_stats"):
                counted = usage(len(ids), len(spoken.prompt))
            written = visible(spoken, ids)[len(before) :]
            events.append((index, say(written, counted=counted, beside=beside, **more)))
    at = len(spoken.steps) - 1
    reason: dict[str, Any] = {"stop_reason": spoken.stopped_by} if spoken.stopped_by else {}
    events.append((at, say("", finish=finish, **reason)))
    if options.get("include_usage"):
        events.append((at, usage_only(len(spoken.ids), len(spoken.prompt))))
    events.append((at, DONE))
    return events, _openai_document(chatty, finish, asked, spoken)


def _pieces(step: Step, asked: Mapping[str, object]) -> list[tuple[int, ...]]:
    """Tokens per event: a step, or, as llama.cpp does, one token without the end."""
    if asked.get("timings_per_token"):
        return [(token,) for token in step.tokens if token != END]
    return [step.tokens]


def _extras(
    chatty: bool,
    tokens: Sequence[int],
    count: int,
    index: int,
    asked: Mapping[str, object],
    spoken: Spoken,
) -> tuple[dict[str, Any], dict[str, object]]:
    """Fields of the choice and beside it; vLLM puts the prompt's ids in either, by route."""
    more: dict[str, Any] = {}
    beside: dict[str, object] = {}
    if asked.get("return_token_ids"):
        more["token_ids"] = list(tokens)
        if count == len(tokens):
            (beside if chatty else more)["prompt_token_ids"] = list(spoken.prompt)
    if asked.get("timings_per_token"):
        beside["timings"] = _timings(spoken.steps[: index + 1], count)
    return more, beside


def _openai_document(
    chatty: bool, finish: str, asked: Mapping[str, object], spoken: Spoken
) -> dict[str, object]:
    said = visible(spoken, spoken.ids)
    body: dict[str, object] = (
        {"message": {"role": "assistant", "content": said}} if chatty else {"text": said}
    )
    if asked.get("return_token_ids"):
        body["token_ids"] = list(spoken.ids)
    choice = {"index": 0, "finish_reason": finish, **body}
    counted = usage(len(spoken.ids), len(spoken.prompt))
    return {"id": "fake-1", "choices": [choice], "usage": counted}


def llamacpp(path: str, asked: Mapping[str, object], spoken: Spoken) -> tuple[Events, object]:
    """llama.cpp's /completion: one event per token, those of one step with equal timings.

    The end token is counted and has no event. The last event echoes the settings.
    """
    events: Events = []
    ids: list[int] = []
    for index, step in enumerate(spoken.steps):
        for token in step.tokens:
            before = visible(spoken, ids)
            ids.append(token)
            if token != END:
                said = {
                    "index": 0,
                    "content": visible(spoken, ids)[len(before) :],
                    "tokens": [token],
                    "stop": False,
                    "tokens_predicted": len(ids),
                    "tokens_evaluated": len(spoken.prompt),
                }
                timings = _timings(spoken.steps[: index + 1], len(ids))
                events.append((index, event({**said, "timings": timings})))
    settings = spoken.settings
    document = {
        "index": 0,
        "content": "",
        "tokens": [],
        "stop": True,
        "tokens_predicted": len(ids),
        "tokens_evaluated": len(spoken.prompt),
        "tokens_cached": len(spoken.prompt) + len(ids) - 1,
        "stop_type": {"end": "eos", "stop": "word", "length": "limit"}[spoken.finish],
        "stopping_word": spoken.stopped_by,
        "truncated": False,
        "generation_settings": {
            "seed": settings.seed,
            "temperature": settings.temperature,
            "top_k": settings.top_k,
            "top_p": settings.top_p,
            "min_p": settings.min_p,
            "n_predict": settings.max_tokens,
            "stop": list(settings.stop),
        },
        "timings": _timings(spoken.steps, len(ids)),
    }
    events.append((len(spoken.steps) - 1, event(document)))
    shown = [number for number in ids if number != END]
    return events, {**document, "content": visible(spoken, ids), "tokens": shown}


def _timings(steps: Sequence[Step], tokens: int) -> dict[str, object]:
    """Cumulative; ``predicted_ms`` is next to nothing at the prefill, then 10 more per step."""
    made: dict[str, object] = {
        "predicted_n": tokens,
        "predicted_ms": 0.001 + 10.0 * (len(steps) - 1),
    }
    if drafted := sum(step.drafted for step in steps):
        made |= {"draft_n": drafted, "draft_n_accepted": sum(step.accepted for step in steps)}
    return made


def sglang(path: str, asked: Mapping[str, object], spoken: Spoken) -> tuple[Events, object]:
    """SGLang's /generate: text and ids are cumulative; drafting is counted in the last event."""
    events: Events = []
    ids: list[int] = []
    for index, step in enumerate(spoken.steps):
        ids += step.tokens
        last = index == len(spoken.steps) - 1
        events.append((index, event(_sglang_document(spoken, ids, last))))
    events.append((len(spoken.steps) - 1, DONE))
    return events, _sglang_document(spoken, ids, True)


def _sglang_document(spoken: Spoken, ids: Sequence[int], last: bool) -> dict[str, object]:
    meta: dict[str, object] = {
        "id": "fake-1",
        "prompt_tokens": len(spoken.prompt),
        "completion_tokens": len(ids),
        "cached_tokens": 0,
        "finish_reason": None,
    }
    if last:
        matched: object = spoken.stopped_by or END
        meta["finish_reason"] = (
            {"type": "length", "length": len(ids)}
            if spoken.finish == "length"
            else {"type": "stop", "matched": matched}
        )
        if drafts := spoken.drafts:
            meta["spec_verify_ct"] = len(spoken.steps) - 1
            meta["spec_accepted_drafts"] = sum(step.accepted for step in drafts)
            meta["spec_proposed_drafts"] = sum(step.drafted for step in drafts)
    return {"text": visible(spoken, ids), "output_ids": list(ids), "meta_info": meta}
