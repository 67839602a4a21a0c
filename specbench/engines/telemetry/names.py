"""What the counters of each kind of server are called, and what is weak about them.

Sources: vLLM, v1/spec_decode/metrics.py and design/metrics.md; llama.cpp pull request 26389;
SGLang, observability/metrics_collector.py; TensorRT-LLM, metrics/collector.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CounterNames:
    """Sample names by meaning; several are alternatives, the first that exists counts.

    Attributes:
        drafts: decode steps with a draft, per request.
        drafted, accepted: draft tokens.
        accepted_at: steps that accepted the draft token at label ``position``, from 0.
        requests: finished requests; empty where the server counts none.
        tokens: output tokens, those of the prefills included.
        note: what is weak about them, for the reader.
    """

    drafts: tuple[str, ...] = ()
    drafted: tuple[str, ...] = ()
    accepted: tuple[str, ...] = ()
    accepted_at: tuple[str, ...] = ()
    requests: tuple[str, ...] = ()
    tokens: tuple[str, ...] = ()
    note: str = ""

    @property
    def speculation(self) -> tuple[str, ...]:
        """Names of which at least one must exist for anything to be said about speculation."""
        return self.drafts + self.drafted + self.accepted

    @property
    def every(self) -> tuple[str, ...]:
        """All names."""
        return self.speculation + self.accepted_at + self.requests + self.tokens


def _like_vllm(prefix: str, **others: object) -> CounterNames:
    start = f"{prefix}:spec_decode_num_"
    return CounterNames(
        drafts=(f"{start}drafts_total",),
        drafted=(f"{start}draft_tokens_total",),
        accepted=(f"{start}accepted_tokens_total",),
        accepted_at=(f"{start}accepted_tokens_per_pos_total",),
        **others,  # type: ignore[arg-type]
    )


NAMES: Mapping[str, CounterNames] = {
    "vllm": _like_vllm(
        "vllm",
        requests=("vllm:request_success_total",),
        tokens=("vllm:generation_tokens_total",),
        note="steps without a draft are inferred from the output tokens; accepted counts drafts "
        "behind the end",
    ),
    "llamacpp": _like_vllm(
        "llamacpp",
        tokens=("llamacpp:tokens_predicted_total",),
        note="accepted counts drafts behind the end",
    ),
    "sglang": CounterNames(
        drafts=("sglang:spec_verify_calls_total",),
        requests=("sglang:num_requests_total",),
        tokens=("sglang:generation_tokens_total",),
        note="only verify steps are counted, neither drafted nor accepted tokens",
    ),
    "trtllm": CounterNames(
        drafted=(
            "trtllm_spec_decode_drafted_tokens_total",
            "trtllm_spec_decode_num_draft_tokens_total",
        ),
        accepted=(
            "trtllm_spec_decode_accepted_tokens_total",
            "trtllm_spec_decode_num_accepted_tokens_total",
        ),
        requests=("trtllm_request_success_total",),
        tokens=("trtllm_generation_tokens_total",),
        note="steps are not counted, so that no accept length follows",
    ),
}
