"""llama.cpp's server: /completion with token ids, or the chat route, both with ``timings``.

With ``timings_per_token`` every event repeats ``predicted_n``, ``predicted_ms``, ``draft_n`` and
``draft_n_accepted``. All events of one decode step carry the same ``predicted_ms``, which makes it
the clock of a mark. Source: tools/server/README.md and server-context.cpp of llama.cpp, and what
its server answers.

Weaknesses: the id of the end token is counted and not shown; of a character of several tokens only
the last id is shown; a prefix that is used again may change the last bits of the logits. On the
route ``text`` it adds the start token by itself, and cannot be told not to. It closes kept
connections after a few answers without saying so, at times just when the next request is written,
so that every request gets a connection of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from specbench.core.request import Request, Sampling
from specbench.core.trace import Finish, Tally
from specbench.engines.http.dialects.fields import (
    count,
    fold_seed,
    number,
    require_no_minimum,
    single,
    table,
    text,
    token_ids,
)
from specbench.engines.http.dialects.openai import (
    error_text,
    place,
    read_piece,
    standard_fields,
)
from specbench.engines.http.opener import opener
from specbench.engines.http.piece import Mark, Piece
from specbench.engines.http.protocol import Served, Wish
from specbench.errors import UsageError

NAME = "llama.cpp"
RANDOM_SEED = 0xFFFFFFFF
"""The seed by which llama.cpp means "draw one"; all seeds that are sent lie below it."""
SAMPLERS = ["penalties", "temperature", "top_k", "top_p", "min_p"]
"""Our order (``decoding.sampling``); llama.cpp's own puts the temperature last."""
SOURCE = "llama.cpp timings"

_FINISHES = {"eos": Finish.EOS, "word": Finish.STOP, "limit": Finish.LENGTH}
_SETTINGS = {
    "temperature": "temperature",
    "top_p": "top_p",
    "min_p": "min_p",
    "repeat_penalty": "repetition_penalty",
    "frequency_penalty": "frequency_penalty",
    "presence_penalty": "presence_penalty",
}
_WHOLE = {"top_k": "top_k", "n_predict": "max_new_tokens"}


class LlamaCpp:
    """See ``engines.http.protocol.Dialect``."""

    name = "llamacpp"
    routes: Sequence[str] = ("ids", "text", "chat")
    adds_special = True
    drops_connections = True

    def post(self, request: Request, served: Served, wish: Wish) -> tuple[str, dict[str, object]]:
        """Path and body; UsageError where llama.cpp has no equivalent of a sampling setting."""
        limits = request.limits
        if limits.min_new_tokens < limits.max_new_tokens:
            require_no_minimum(request, NAME)
        own = _sampling(request.sampling, len(request.token_ids) + limits.max_new_tokens, served)
        own |= {
            "seed": fold_seed(request.seed, RANDOM_SEED),
            "ignore_eos": limits.min_new_tokens >= limits.max_new_tokens,
            "return_tokens": True,
            "timings_per_token": True,
        }
        if wish.cache is not None:
            own["cache_prompt"] = wish.cache
        path, body = place(request, served, wish)
        if wish.route == "chat":
            return path, body | standard_fields(request) | own
        body |= {
            "n_predict": limits.max_new_tokens,
            "stop": list(request.stops.strings),
            "stream": True,
        }
        return "/completion", body | own

    def piece(self, payload: Mapping[str, object]) -> Piece:
        """What one event says; ValueError where it comes from another kind of server."""
        if "choices" in payload:
            return _with_timings(read_piece(payload), table(payload, "timings"))
        error = error_text(payload)
        if error:
            return Piece(error=error)
        if not isinstance(payload.get("content"), str) or "stop" not in payload:
            raise ValueError(f"no event of {NAME}: {sorted(payload)}")
        ended = payload.get("stop") is True
        settings = table(payload, "generation_settings")
        piece = Piece(
            text=text(payload, "content"),
            token_ids=token_ids(payload, "tokens"),
            completion_tokens=count(payload, "tokens_predicted"),
            prompt_tokens=count(payload, "tokens_evaluated"),
            finish=_FINISHES.get(text(payload, "stop_type")) if ended else None,
            done=ended,
            effective=_effective(settings),
        )
        return _with_timings(piece, table(payload, "timings"))


DIALECT = LlamaCpp()


def _sampling(sampling: Sampling, length: int, served: Served) -> dict[str, object]:
    """Every sampling field in llama.cpp's names, whatever the server's own defaults are."""
    for name in ("frequency_penalty", "presence_penalty"):
        if getattr(sampling, name):
            raise UsageError(
                f"{name} {getattr(sampling, name)}: {NAME} counts the prompt's tokens as well",
                f"set {name} to 0, or measure on another engine",
            )
    # Its repetition penalty forgets what lies further back, so that all has to be in reach.
    reach = max(length, served.context or 0) if sampling.repetition_penalty != 1.0 else 0
    return {
        "samplers": list(SAMPLERS),
        "temperature": 0.0 if sampling.greedy else sampling.temperature,
        "dynatemp_range": 0.0,
        "mirostat": 0,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        "min_p": sampling.min_p,
        "repeat_penalty": sampling.repetition_penalty,
        "repeat_last_n": reach,
        "frequency_penalty": 0.0,
        "presence_penalty": 0.0,
    }


def _with_timings(piece: Piece, timings: Mapping[str, object]) -> Piece:
    """The piece with what ``timings`` add: the mark, cached tokens and, at the end, totals."""
    tokens, clock = count(timings, "predicted_n"), number(timings, "predicted_ms")
    if tokens is None or clock is None:
        return piece
    verified, accepted = count(timings, "draft_n"), count(timings, "draft_n_accepted")
    # The chat route names the reason in one event and the totals in the next, with the usage.
    last = piece.done or (piece.prompt_tokens is not None and not piece.text)
    return replace(
        piece,
        completion_tokens=tokens,
        cached_tokens=count(timings, "cache_n"),
        mark=Mark(tokens, verified, accepted, clock) if tokens else None,
        tally=_tally(tokens, verified or 0, accepted or 0) if last and tokens else None,
    )


def _tally(tokens: int, verified: int, accepted: int) -> Tally:
    """Totals of one request, for outputs whose steps cannot be told apart."""
    committed = tokens - 1
    return Tally(
        source=SOURCE,
        verified=verified,
        accepted=accepted,
        committed=committed,
        # A step gives one token more than it accepts.
        steps=max(committed - accepted, min(committed, 1)),
        drafted_steps=None if verified else 0,
        note="steps are tokens less accepted; accepted counts drafts behind the end",
    )


def _effective(settings: Mapping[str, object]) -> dict[str, object]:
    """Settings that the server says it used, without the rounding of float32."""
    found: dict[str, object] = {}
    for theirs, ours in _SETTINGS.items():
        value = number(settings, theirs)
        if value is not None:
            found[ours] = single(value)
    for theirs, ours in _WHOLE.items():
        whole = count(settings, theirs)
        if whole is not None:
            found[ours] = whole
    if count(settings, "seed") == RANDOM_SEED:
        found["seed"] = "random"
    return found


open_engine = opener(DIALECT)
