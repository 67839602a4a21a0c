"""SGLang: its own route /generate with token ids, or the chat route of the OpenAI interface.

``meta_info`` of the last event holds totals of the request's speculation. Text and ids are
cumulative unless the server was started with incremental streaming. Sources: SGLang documentation,
"Sampling parameters"; tokenizer_manager.py and, for the names of counters, its pull requests
3152, 11144, 13754 and 18332.

Weaknesses: the number of proposed drafts is steps times the configured width and not counted; steps
that drafted fewer look full. The chat route tells nothing about speculation. Seeds hold only where
the server runs with deterministic inference. On the route ``text`` it adds the tokenizer's special
tokens by itself, and cannot be told not to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from specbench.core.request import Request
from specbench.core.trace import Finish, Tally
from specbench.engines.http.dialects.fields import count, counts, table, text, token_ids
from specbench.engines.http.dialects.openai import (
    error_text,
    place,
    read_piece,
    standard_fields,
)
from specbench.engines.http.dialects.totals import at_least, tally
from specbench.engines.http.opener import opener
from specbench.engines.http.piece import Piece
from specbench.engines.http.protocol import Served, Wish
from specbench.errors import UsageError

SOURCE = "sglang meta_info"
NOTE = "verified is steps times the configured width, not counted; accepted may lie behind the end"
_ACCEPTED = ("spec_num_correct_drafts", "spec_accepted_drafts", "spec_accept_token_num")
_PROPOSED = ("spec_num_proposed_drafts", "spec_proposed_drafts", "spec_draft_token_num")
_HISTOGRAM = ("spec_correct_drafts_histogram", "spec_accept_histogram")


class Sglang:
    """See ``engines.http.protocol.Dialect``."""

    name = "sglang"
    routes: Sequence[str] = ("ids", "text", "chat")
    cumulative = True
    adds_special = True

    def post(self, request: Request, served: Served, wish: Wish) -> tuple[str, dict[str, object]]:
        """Path and body; UsageError where SGLang has no equivalent of a sampling setting."""
        sampling, limits = request.sampling, request.limits
        if sampling.repetition_penalty != 1.0:
            raise UsageError(
                f"repetition_penalty {sampling.repetition_penalty}: SGLang leaves the prompt out",
                "set repetition_penalty to 1, or measure on another engine",
            )
        path, body = place(request, served, wish)
        shared: dict[str, object] = {
            "top_k": sampling.top_k or -1,
            "min_p": sampling.min_p,
            "repetition_penalty": 1.0,
            "ignore_eos": False,
            "stop_token_ids": list(request.stops.token_ids),
        }
        if wish.route == "chat":
            told = {"include_usage": True, "continuous_usage_stats": True}
            own = {"min_tokens": limits.min_new_tokens, "stream_options": told}
            return path, body | standard_fields(request) | shared | own
        prompt = "input_ids" if wish.route == "ids" else "text"
        settings = shared | {
            "max_new_tokens": limits.max_new_tokens,
            "min_new_tokens": limits.min_new_tokens,
            "temperature": 0.0 if sampling.greedy else sampling.temperature,
            "top_p": sampling.top_p,
            "frequency_penalty": sampling.frequency_penalty,
            "presence_penalty": sampling.presence_penalty,
            "sampling_seed": request.seed,
            "stop": list(request.stops.strings),
        }
        return "/generate", {prompt: body["prompt"], "sampling_params": settings, "stream": True}

    def piece(self, payload: Mapping[str, object]) -> Piece:
        """What one event says; ValueError where it comes from another kind of server.

        ``text`` and ``token_ids`` of /generate hold all that came so far.
        """
        if "choices" in payload:
            return read_piece(payload)
        if error := error_text(payload):
            return Piece(error=error)
        meta = table(payload, "meta_info")
        if not meta:
            raise ValueError(f"no event of SGLang: {sorted(payload)}")
        finish, failed = _finish(meta.get("finish_reason"))
        return Piece(
            text=text(payload, "text"),
            token_ids=token_ids(payload, "output_ids"),
            completion_tokens=count(meta, "completion_tokens"),
            prompt_tokens=count(meta, "prompt_tokens"),
            cached_tokens=count(meta, "cached_tokens"),
            finish=finish,
            error=failed,
            tally=_tally(meta) if finish else None,
        )


DIALECT = Sglang()


def _finish(reason: object) -> tuple[Finish | None, str]:
    """The finish and an error text from ``{"type": ..., "matched": ...}``."""
    if not isinstance(reason, Mapping):
        return None, ""
    kind = reason.get("type")
    if kind == "length":
        return Finish.LENGTH, ""
    if kind == "stop":
        return (Finish.STOP if isinstance(reason.get("matched"), str) else Finish.EOS), ""
    return None, f"finish reason {kind!r}: {reason.get('message', 'no message')}"


def _tally(meta: Mapping[str, object]) -> Tally | None:
    steps = count(meta, "spec_verify_ct")
    if steps is None:
        return None
    histograms = (counts(meta, name) for name in _HISTOGRAM)
    return tally(
        SOURCE,
        NOTE,
        tokens=count(meta, "completion_tokens"),
        drafted_steps=steps,
        verified=_first_count(meta, _PROPOSED),
        accepted=_first_count(meta, _ACCEPTED),
        accepted_at=at_least(next((found for found in histograms if found), None)),
    )


def _first_count(meta: Mapping[str, object], names: Sequence[str]) -> int | None:
    found = (count(meta, name) for name in names)
    return next((value for value in found if value is not None), None)


open_engine = opener(DIALECT)
