"""SGLang: input log-probabilities of its own ``/generate`` route, one request per output.

``logprob_start_len`` s gives an entry per token from place s on, the first without a value. The
row before a token stands in that token's entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from specbench.engines.scoring.listed import listed
from specbench.engines.scoring.protocol import Ask, other_kind
from specbench.errors import SpecbenchError
from specbench.fidelity.kept import TopRow


class SglangScorer:
    """See the module's text."""

    name = "sglang"
    top = 100
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
        """One request with prompt and output as its input."""
        body = {
            "input_ids": [*prompt, *output],
            # Temperature 1, so that no build of the server can temper what it reports.
            "sampling_params": {"max_new_tokens": 1, "temperature": 1.0},
            "return_logprob": True,
            "logprob_start_len": max(len(prompt) - 1, 0),
            "top_logprobs_num": top,
        }
        answer = ask("/generate", body)
        try:
            facts = answer["meta_info"]
            own, rows = facts["input_token_logprobs"], facts["input_top_logprobs"]
        except (KeyError, TypeError):
            raise other_kind(
                "the server gave no input_top_logprobs: it is no SGLang server"
            ) from None
        count = len(output)
        # Counted from the end: whether the first entry is there differs between versions.
        if [int(entry[1]) for entry in own[-count:]] != list(output) or len(rows) < count:
            raise SpecbenchError("the server scored other tokens than it was sent")
        return [listed(_pairs(row), top, self.rounding, vocabulary) for row in rows[-count:]]


def _pairs(row: Sequence[Sequence[Any]] | None) -> list[tuple[int, float]]:
    return [(int(entry[1]), float(entry[0])) for entry in row or ()]


SCORER = SglangScorer()
