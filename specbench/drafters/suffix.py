"""Suffix decoding: continue the last tokens as they were continued before, while that is likely.

Source: Oliaro et al. 2411.04975 (SuffixDecoding); defaults as in vLLM. Every length of the match is
tried, in the request itself and, with ``scope="answers"``, in earlier answers of the same arm. How
long a draft is depends on the length of its match and on how often the path was taken, see
``suffix_match``.

Answers are remembered when they have ended, so that a draft does not depend on what else is in the
batch. Answers to the same item (other turns, repeats, temperatures) are not looked into: a repeat
measures the same request once more, and would find its own answer. The published systems do not
have this distinction, nor repeats.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import torch

from specbench.decoding.protocols import CHOSEN, Draft, DrafterInfo, DraftFacts
from specbench.decoding.sequence import Sequence as DecodedSequence
from specbench.drafters.build import BuildContext, choice, whole
from specbench.drafters.chain import one_hot_draft
from specbench.drafters.reach import looked_up
from specbench.drafters.stateless import StatelessDrafter
from specbench.drafters.suffix_answers import Answers
from specbench.drafters.suffix_match import Bounds, best_continuation
from specbench.errors import UsageError

INFO = DrafterInfo(
    name="suffix",
    summary="suffix decoding: what usually followed the last tokens, longer after long matches",
    source="Oliaro et al. 2024, 2411.04975; Arctic Inference",
    default=CHOSEN,
    options={
        "depth": "matched and drafted tokens together, at most: the tree's depth (24)",
        "factor": "drafted tokens per matched token, at most (1.0)",
        "min_prob": "share of a match's occurrences that must have a path behind them (0.1)",
        "scope": "request: its prompt and output; answers: earlier answers too (request)",
        "answers": "earlier answers that are remembered, the oldest forgotten first (10000)",
    },
    variants=(({"scope": "answers"}, DraftFacts("one_hot", "one_hot", stateful=True)),),
)


class SuffixDrafter(StatelessDrafter):
    """Continues the best match of the last tokens.

    Args:
        bounds: how far a match may be continued.
        answers: earlier answers that are remembered; 0 = the request alone is looked into.
        device: of the drafts.

    Raises:
        UsageError: a bound out of range.
    """

    info = INFO

    def __init__(
        self, bounds: Bounds, answers: int = 0, device: torch.device | None = None
    ) -> None:
        _check(bounds)
        self._bounds = bounds
        self._answers = Answers(answers) if answers else None
        self._device = device or torch.device("cpu")

    @classmethod
    def build(cls, options: dict[str, object], context: BuildContext) -> SuffixDrafter:
        """From an arm's options, see ``INFO``."""
        arm = context.arm
        wide = choice(options, "scope", ("request", "answers"), arm) == "answers"
        if "answers" in options and not wide:
            raise UsageError(
                f"arm {arm}: answers={options['answers']!r} without scope='answers'",
                "add scope = 'answers', or leave answers out",
            )
        bounds = Bounds(
            whole(options, "depth", 24, arm),
            _number(options, "factor", 1.0, arm),
            _number(options, "min_prob", 0.1, arm),
        )
        remembered = whole(options, "answers", 10_000, arm) if wide else 0
        if wide and remembered < 1:
            raise UsageError(f"arm {arm}: answers={remembered}", "use 1 or more, e.g. 10000")
        return cls(bounds, remembered, context.target.device)

    @property
    def state_bytes(self) -> int:
        """Bytes that are kept from one request to the next."""
        return self._answers.nbytes if self._answers else 0

    def reset(self) -> None:
        """Forget earlier answers."""
        if self._answers:
            self._answers.clear()

    def propose(self, rows: Sequence[DecodedSequence], budget: Sequence[int]) -> Draft:
        """At most ``budget[b]`` tokens of the best continuation; none without a match."""
        tokens = [
            self.lookup(row, room) if room > 0 else []
            for row, room in zip(rows, budget, strict=True)
        ]
        short = looked_up([len(line) for line in tokens], budget)
        return one_hot_draft(tokens, short, self._device)

    def lookup(self, row: DecodedSequence, room: int) -> list[int]:
        """The best continuation of a request, at most ``room`` tokens.

        The request's own text is preferred to earlier answers of the same score.
        """
        text = row.tokens
        last, pattern = int(text[-1]), text[-self._bounds.depth :]
        best = best_continuation(text, (text == last).nonzero()[0], pattern, room, self._bounds)
        if self._answers:
            ends = self._answers.ends(last, _origin(row))
            other = best_continuation(self._answers.text, ends, pattern, room, self._bounds)
            if other.score > best.score:
                best = other
        return list(best.tokens)

    def release(self, rows: Sequence[DecodedSequence]) -> None:
        """Remember the answers of requests that ended by themselves."""
        if self._answers is None:
            return
        for row in rows:
            if row.finish is not None and row.trace.ok:
                self._answers.add(row.tokens[row.prompt_length :].tolist(), _origin(row))


def _origin(row: DecodedSequence) -> Hashable:
    key = row.request.key
    return key.suite, key.item


def _check(bounds: Bounds) -> None:
    if bounds.depth < 2:
        raise UsageError(f"suffix: depth={bounds.depth}", "use 2 or more, e.g. 24")
    if not 0 < bounds.factor < math.inf:
        raise UsageError(f"suffix: factor={bounds.factor}", "use a number above 0, e.g. 1.0")
    if not 0 <= bounds.least <= 1:
        raise UsageError(f"suffix: min_prob={bounds.least}", "use a number of 0 to 1, e.g. 0.1")


def _number(options: dict[str, object], name: str, default: float, arm: str) -> float:
    value = options.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(f"arm {arm}: {name}={value!r} is not a number", f"e.g. {default}")
    return float(value)
