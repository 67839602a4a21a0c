"""vLLM: the completions route with token ids, or the chat route.

Per request it tells, where started with ``--per-request-spec-decode-metrics summary`` (or
``detailed``, which lists every step), what ``metrics.speculative_decoding`` holds in the event of
the usage. Sources: vLLM documentation, "Per-request acceptance metrics" and "OpenAI-compatible
server"; protocol.py of its entrypoints.

Weaknesses: steps without a draft are not listed; accepted drafts behind an end are counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from specbench.core.request import Request
from specbench.core.trace import Finish, Steps, Tally
from specbench.engines.http.dialects.fields import count, counts, first, table, token_ids
from specbench.engines.http.dialects.openai import place, read_piece, standard_fields
from specbench.engines.http.dialects.totals import at_least, listed_steps, tally
from specbench.engines.http.opener import opener
from specbench.engines.http.piece import Piece
from specbench.engines.http.protocol import Served, Wish
from specbench.errors import UsageError

SOURCE = "vllm metrics.speculative_decoding"
NOTE = "accepted counts drafts behind the end; an end inside a step may hide steps without a draft"


class Vllm:
    """See ``engines.http.protocol.Dialect``."""

    name = "vllm"
    routes: Sequence[str] = ("ids", "text", "chat")

    def post(self, request: Request, served: Served, wish: Wish) -> tuple[str, dict[str, object]]:
        """Path and body; UsageError where vLLM truncates in another order than we define."""
        sampling = request.sampling
        if sampling.min_p > 0.0 and sampling.top_p < 1.0:
            raise UsageError(
                f"min_p {sampling.min_p} with top_p {sampling.top_p}: vLLM applies min_p before "
                "top_p, which keeps other tokens than top_p before min_p does",
                "set one of the two to its neutral value (min_p 0 or top_p 1)",
            )
        path, body = place(request, served, wish)
        body |= standard_fields(request)
        body |= {
            "top_k": sampling.top_k or -1,
            "min_p": sampling.min_p,
            "repetition_penalty": sampling.repetition_penalty,
            "min_tokens": request.limits.min_new_tokens,
            "ignore_eos": False,
            "stop_token_ids": list(request.stops.token_ids),
            "return_token_ids": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        }
        if wish.route == "text":
            # A chat template has written the special tokens already.
            body["add_special_tokens"] = wish.raw
        if wish.cache is False:
            # Prefixes are shared only among requests of one salt: not with earlier runs either.
            body["cache_salt"] = wish.salt
        return path, body

    def piece(self, payload: Mapping[str, object]) -> Piece:
        """What one event says; ValueError where it comes from another kind of server."""
        piece = read_piece(payload)
        choice = first(payload, "choices")
        stopped = choice.get("stop_reason")
        finish = piece.finish
        if finish is Finish.STOP and not isinstance(stopped, str):
            # vLLM names the stop string; null and a token id both mean an end token.
            finish = Finish.EOS
        told = table(table(payload, "metrics"), "speculative_decoding")
        steps, totals = _speculation(told, piece.completion_tokens) if told else (None, None)
        return replace(
            piece,
            finish=finish,
            token_ids=token_ids(choice, "token_ids"),
            prompt_ids=token_ids(choice, "prompt_token_ids")
            or token_ids(payload, "prompt_token_ids"),
            steps=steps,
            tally=totals,
        )


DIALECT = Vllm()


def _speculation(
    told: Mapping[str, object], tokens: int | None
) -> tuple[Steps | None, Tally | None]:
    accepted, drafted = counts(told, "per_step_accepted"), counts(told, "per_step_drafted")
    steps = None
    if accepted is not None and drafted is not None:
        steps = listed_steps(accepted, drafted, tokens)
    totals = tally(
        SOURCE,
        NOTE,
        tokens=tokens,
        drafted_steps=count(told, "num_spec_steps"),
        verified=count(told, "num_draft_tokens"),
        accepted=count(told, "num_accepted_draft_tokens"),
        accepted_at=at_least(counts(told, "acceptance_histogram")),
    )
    return steps, totals


open_engine = opener(DIALECT)
