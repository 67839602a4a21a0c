"""llama.cpp: no log-probabilities of prompts, so one request per output token.

Each asks for one token behind a growing prompt. With ``cache_prompt`` the server evaluates one
token per request. ``n_probs`` without ``post_sampling_probs`` lists the row as it was before any
sampler. What is drawn from it does not matter, but a drawn end or half a character would hide the
row: ``logit_bias``, a sampler, makes the draw a letter. The softmax sums a vocabulary in float32,
so that whole rows miss 1 by some 1e-4.
"""

from __future__ import annotations

from collections.abc import Sequence

from specbench.engines.scoring.listed import listed
from specbench.engines.scoring.protocol import Ask, other_kind
from specbench.errors import SpecbenchError
from specbench.fidelity.kept import TopRow

_CERTAIN = 1e6
"""A bias that no logit can outweigh."""


class LlamacppScorer:
    """See the module's text."""

    name = "llamacpp"
    top = 256
    rounding = 1e-3

    def rows(
        self,
        ask: Ask,
        model: str,
        prompt: Sequence[int],
        output: Sequence[int],
        top: int,
        vocabulary: int | None,
    ) -> list[TopRow]:
        """One request per row, shortest prompt first."""
        tokens, rows, letter = [*prompt, *output], [], _letter(ask)
        for length in range(len(prompt), len(tokens)):
            body = {
                "prompt": tokens[:length],
                "n_predict": 1,
                "n_probs": top,
                "temperature": 1.0,
                "post_sampling_probs": False,
                "cache_prompt": True,
                "logit_bias": [[letter, _CERTAIN]],
            }
            answer = ask("/completion", body)
            try:
                if answer["tokens_evaluated"] != length:
                    raise SpecbenchError(
                        f"the server read {answer['tokens_evaluated']} tokens of {length}: its "
                        "context is too short"
                    )
                row = answer["completion_probabilities"][0]["top_logprobs"]
            except (KeyError, IndexError, TypeError):
                raise other_kind(
                    "the server gave no completion_probabilities: it is no llama.cpp server"
                ) from None
            pairs = [(int(entry["id"]), float(entry["logprob"])) for entry in row]
            rows.append(listed(pairs, top, self.rounding, vocabulary))
        return rows


def _letter(ask: Ask) -> int:
    """A token that is a whole character."""
    found = ask("/tokenize", {"content": "a", "add_special": False}).get("tokens")
    if not isinstance(found, list) or not found or not isinstance(found[0], int):
        raise other_kind("the server does not tokenise: it is no llama.cpp server")
    return found[0]


SCORER = LlamacppScorer()
