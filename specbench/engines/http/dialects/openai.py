"""Any OpenAI-compatible server: chat and completions, standard fields only.

Sources: OpenAI API reference, "Chat completions" and "Completions" (streaming objects, usage,
finish reasons); ``reasoning`` and ``reasoning_content`` as vLLM, SGLang and llama.cpp send them.
The standard does not say who writes special tokens on the route ``text``; servers add them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from specbench.core.request import Request
from specbench.core.trace import Finish
from specbench.engines.http.opener import opener
from specbench.engines.http.piece import Piece
from specbench.engines.http.protocol import Served, Wish
from specbench.errors import UsageError

FINISH = {
    "stop": Finish.STOP,
    "stop_sequence": Finish.STOP,
    "eos_token": Finish.EOS,
    "tool_calls": Finish.EOS,
    "function_call": Finish.EOS,
    "length": Finish.LENGTH,
}
"""Finish reasons by their usual names. ``stop`` may be an end token as well: a reader that cannot
tell says STOP, and the transcript calls it EOS where no stop string was asked for."""


class OpenAiDialect:
    """Implements ``engines.http.protocol.Dialect`` with the fields that every such server takes."""

    name = "openai"
    routes: Sequence[str] = ("chat", "text")
    adds_special = True

    def post(self, request: Request, served: Served, wish: Wish) -> tuple[str, dict[str, object]]:
        """See the protocol.

        Raises:
            UsageError: a sampling setting that the standard has no field for.
        """
        sampling = request.sampling
        for name, off in (("top_k", 0), ("min_p", 0.0), ("repetition_penalty", 1.0)):
            if (value := getattr(sampling, name)) != off:
                raise UsageError(
                    f"{name} = {value} cannot be asked of an engine 'openai': "
                    "the OpenAI standard has no such field",
                    f"set {name} = {off}, or name the server's own engine (vllm, sglang, …)",
                )
        path, body = place(request, served, wish)
        return path, body | standard_fields(request)

    def piece(self, payload: Mapping[str, object]) -> Piece:
        """See the protocol; reads streamed and whole answers of both routes."""
        return read_piece(payload)


DIALECT = OpenAiDialect()

open_engine = opener(DIALECT)


def place(request: Request, served: Served, wish: Wish) -> tuple[str, dict[str, object]]:
    """Path of a route, and the model and prompt in its terms.

    On the route ``text`` the messages hold the rendered prompt; several are joined by blank lines.
    """
    if wish.route == "chat":
        messages = [dict(message) for message in request.messages]
        return "/v1/chat/completions", {"model": served.model, "messages": messages}
    if wish.route == "ids":
        return "/v1/completions", {"model": served.model, "prompt": list(request.token_ids)}
    text = "\n\n".join(str(message.get("content", "")) for message in request.messages)
    return "/v1/completions", {"model": served.model, "prompt": text}


def standard_fields(request: Request) -> dict[str, object]:
    """Every sampling field of the standard, so that no default of a server sneaks in (case H5)."""
    sampling = request.sampling
    body: dict[str, object] = {
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": request.limits.max_new_tokens,
        "temperature": 0.0 if sampling.greedy else sampling.temperature,
        "top_p": sampling.top_p,
        "frequency_penalty": sampling.frequency_penalty,
        "presence_penalty": sampling.presence_penalty,
        "seed": request.seed,
        "n": 1,
    }
    if request.stops.strings:
        body["stop"] = list(request.stops.strings)
    return body


def read_piece(payload: Mapping[str, object]) -> Piece:
    """What an event, or a whole answer, in OpenAI's form says.

    Raises:
        ValueError: neither choices nor usage nor an error is in it.
    """
    if error := error_text(payload):
        return Piece(error=error)
    completion, prompt, cached = read_usage(payload.get("usage"))
    choices = payload.get("choices")
    if not isinstance(choices, list):
        if completion is None:
            raise ValueError("an event without choices, usage or error")
        choices = []
    choice = choices[0] if choices else {}
    text, reasoning = _texts(choice)
    finish, failed = read_finish(choice.get("finish_reason"))
    return Piece(
        text=text,
        reasoning=reasoning,
        completion_tokens=completion,
        prompt_tokens=prompt,
        cached_tokens=cached,
        finish=finish,
        error=failed,
    )


def error_text(payload: Mapping[str, object]) -> str:
    """The message of an error object; empty where there is none."""
    error = payload.get("error")
    if payload.get("object") == "error":
        error = payload
    if not error:
        return ""
    if isinstance(error, Mapping):
        return str(error.get("message") or error.get("type") or error)
    return str(error)


def read_usage(usage: object) -> tuple[int | None, int | None, int | None]:
    """Completion, prompt and cached tokens of a usage object; None where it does not say."""
    if not isinstance(usage, Mapping):
        return None, None, None
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, Mapping) else None
    return (
        _count(usage.get("completion_tokens")),
        _count(usage.get("prompt_tokens")),
        _count(cached),
    )


def read_finish(reason: object) -> tuple[Finish | None, str]:
    """The finish and an error text; a reason that is no success is an error."""
    if not reason:
        return None, ""
    if isinstance(reason, str) and reason in FINISH:
        return FINISH[reason], ""
    return None, f"finish reason {reason!r}"


def _texts(choice: Mapping[str, object]) -> tuple[str, str]:
    """Visible and invisible text of a choice.

    Arguments of tool calls are visible. The name of a called tool is not, but it is made of
    tokens, so it stands with the reasoning.
    """
    if isinstance(choice.get("text"), str):
        return str(choice["text"]), ""
    part = choice.get("delta") or choice.get("message") or {}
    if not isinstance(part, Mapping):
        raise ValueError("a choice without delta, message or text")
    reasoning = str(part.get("reasoning_content") or part.get("reasoning") or "")
    text = str(part.get("content") or "")
    calls = part.get("tool_calls")
    for call in calls if isinstance(calls, list) else []:
        function = call.get("function") or {}
        reasoning += str(function.get("name") or "")
        text += str(function.get("arguments") or "")
    return text, reasoning


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
