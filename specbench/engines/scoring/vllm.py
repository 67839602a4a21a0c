"""vLLM: ``prompt_logprobs`` of the completions route, one request per output.

Rows are of raw logits (server option ``--logprobs-mode raw_logprobs``, its default). A row holds
the asked number of tokens and the prompt's own where it is not among them. Servers allow 20 tokens
per position unless started with ``--max-logprobs N``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from specbench.engines.scoring.listed import listed
from specbench.engines.scoring.protocol import Ask, other_kind
from specbench.errors import SpecbenchError
from specbench.fidelity.kept import TopRow


class VllmScorer:
    """See the module's text."""

    name = "vllm"
    top = 20
    rounding = 1e-5

    def rows(
        self,
        ask: Ask,
        model: str,
        prompt: Sequence[int],
        output: Sequence[int],
        top: int,
        vocabulary: int | None,
    ) -> list[TopRow]:
        """One request with prompt and output as its prompt."""
        body = {
            "model": model,
            "prompt": [*prompt, *output],
            "max_tokens": 1,
            "temperature": 0.0,
            "prompt_logprobs": top,
            "add_special_tokens": False,
        }
        answer = ask("/v1/completions", body)
        try:
            found = answer["choices"][0]["prompt_logprobs"]
            rows = found[len(prompt) :]
        except (KeyError, IndexError, TypeError):
            raise other_kind(
                "the server gave no prompt_logprobs: it is no vLLM server, or an old one"
            ) from None
        if len(found) != len(prompt) + len(output):
            raise SpecbenchError(
                f"the server gave {len(found)} rows for {len(prompt) + len(output)} tokens"
            )
        return [listed(_pairs(row), top, self.rounding, vocabulary) for row in rows]


def _pairs(row: Mapping[str, Any] | None) -> list[tuple[int, float]]:
    return [(int(token), float(value["logprob"])) for token, value in (row or {}).items()]


SCORER = VllmScorer()
