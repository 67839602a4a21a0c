"""TensorRT-LLM (``trtllm-serve``): the completions route with token ids, or the chat route.

Each choice may hold ``avg_decoded_tokens_per_iter`` and, where the server was started with
``per_request_spec_decode_stats`` in its YAML, ``speculative_decoding`` in the event of the finish.
Sources: openai_protocol.py and postprocess_handlers.py of TensorRT-LLM; pull request 19311.

Weaknesses: token ids are shown only without text, so tokens are counted by continuous usage; the
average of tokens per iteration has the prefill in it (METRICS, definition C), which is taken out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from specbench.core.request import Request
from specbench.core.trace import Finish, Tally
from specbench.engines.http.dialects.fields import count, counts, first, number, table, token_ids
from specbench.engines.http.dialects.openai import place, read_piece, standard_fields
from specbench.engines.http.dialects.totals import at_least, tally
from specbench.engines.http.opener import opener
from specbench.engines.http.piece import Piece
from specbench.engines.http.protocol import Served, Wish
from specbench.errors import UsageError

SOURCE = "trtllm speculative_decoding"
AVERAGE = "trtllm avg_decoded_tokens_per_iter"


class Trtllm:
    """See ``engines.http.protocol.Dialect``."""

    name = "trtllm"
    routes: Sequence[str] = ("ids", "text", "chat")

    def post(self, request: Request, served: Served, wish: Wish) -> tuple[str, dict[str, object]]:
        """Path and body; UsageError where TensorRT-LLM has no equivalent of a setting."""
        sampling = request.sampling
        counted = sampling.frequency_penalty or sampling.presence_penalty
        if counted and wish.route != "ids":
            raise UsageError(
                "frequency_penalty and presence_penalty: TensorRT-LLM counts the prompt unless it "
                f"is told its length, which route {wish.route!r} does not know",
                "set both to 0, or name a tokenizer so that token ids are sent",
            )
        path, body = place(request, served, wish)
        body |= standard_fields(request)
        body |= {
            "top_k": sampling.top_k,
            "min_p": sampling.min_p,
            "repetition_penalty": sampling.repetition_penalty,
            "min_tokens": request.limits.min_new_tokens,
            "ignore_eos": False,
            "stop_token_ids": list(request.stops.token_ids),
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        }
        if wish.route == "ids":
            body["prompt_ignore_length"] = len(request.token_ids) if counted else 0
        if wish.route == "text":
            # A chat template has written the special tokens already.
            body["add_special_tokens"] = wish.raw
        return path, body

    def piece(self, payload: Mapping[str, object]) -> Piece:
        """What one event says; ValueError where it comes from another kind of server."""
        piece = read_piece(payload)
        choice = first(payload, "choices")
        finish = piece.finish
        if finish is Finish.STOP and not isinstance(choice.get("stop_reason"), str):
            # A stop string is named; null and a token id both mean an end token.
            finish = Finish.EOS
        return replace(
            piece,
            finish=finish,
            token_ids=token_ids(choice, "token_ids"),
            prompt_ids=token_ids(payload, "prompt_token_ids"),
            tally=_tally(choice, piece.completion_tokens) if finish else None,
        )


DIALECT = Trtllm()


def _tally(choice: Mapping[str, object], tokens: int | None) -> Tally | None:
    told = table(choice, "speculative_decoding")
    if told:
        return tally(
            SOURCE,
            "accepted counts drafts behind the end",
            tokens=tokens,
            drafted_steps=count(told, "num_spec_steps"),
            verified=count(told, "total_draft_tokens"),
            accepted=count(told, "total_accepted_draft_tokens"),
            accepted_at=at_least(counts(told, "acceptance_histogram")),
        )
    average = number(choice, "avg_decoded_tokens_per_iter")
    if not average or not tokens:
        return None
    return Tally(
        source=AVERAGE,
        # Every iteration but the prefill's is a decode step.
        steps=max(round(tokens / average) - 1, 0),
        committed=tokens - 1,
        note="only the accept length is told, rounded to whole steps",
    )


open_engine = opener(DIALECT)
