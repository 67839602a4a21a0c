"""A request's settings as transformers' generation configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from transformers import GenerationConfig

from specbench.core.request import Request


def generation_config(
    request: Request, cap: int, suppressed: Sequence[int], draft: Mapping[str, object]
) -> GenerationConfig:
    """The configuration of one call of ``generate``.

    Args:
        request: sampling, end tokens and shortest output.
        cap: largest number of output tokens, at least 1.
        suppressed: ids without a token, which must never come out.
        draft: what the arm's drafter adds.
    """
    sampling = request.sampling
    chosen: dict[str, object] = {"do_sample": not sampling.greedy}
    if not sampling.greedy:
        chosen |= {
            "temperature": sampling.temperature,
            # Off is 0 for both; left out, it would become the library's own default of 50.
            "top_k": sampling.top_k,
            "top_p": sampling.top_p,
            "min_p": sampling.min_p or None,
        }
    ends = list(request.stops.token_ids)
    return GenerationConfig(
        max_new_tokens=cap,
        min_new_tokens=request.limits.min_new_tokens or None,
        repetition_penalty=sampling.repetition_penalty,
        eos_token_id=ends or None,
        # The library pads rows that ended with it; a batch of one has none.
        pad_token_id=ends[0] if ends else 0,
        suppress_tokens=list(suppressed) or None,
        **chosen,
        **draft,
    )


def draft_length(k: int, schedule: str, confidence: float) -> GenerationConfig:
    """What a drafting model carries: ``generate`` reads these from the model, nowhere else.

    All other fields stay unset, so that nothing of the checkpoint's own configuration comes in.
    """
    return GenerationConfig(
        num_assistant_tokens=k,
        num_assistant_tokens_schedule=schedule,
        assistant_confidence_threshold=confidence,
    )
