"""A language model that is a table: the law of the next token depends on the last one alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

END, START = 0, 1
"""Ids of the end token and of the start token, which is never produced."""
SPECIAL = ("<end>", "<start>")
ANIMALS = """
    ant bee cat cod cow crab crow deer dog dove duck eel elk emu finch fish fly fox frog goat
    goose gull hare hawk hen heron horse lark lion lynx mole moth mouse mule newt owl ox perch pig
    pike rat seal sheep swan toad wolf
"""
WORDS = tuple(ANIMALS.split())
VOCABULARY = (*SPECIAL, *WORDS)
"""48 tokens; every word is one token, with the space before it."""
NEVER = -30.0
"""Logit of tokens that do not come."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Sampling settings as a server understands them; the defaults are those of a server that was
    asked for nothing, which are not greedy (case H5)."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int | None = None
    max_tokens: int = 16
    stop: tuple[str, ...] = ()


class TableModel:
    """Logits [48, 48] from a seed: row = last token, column = next token.

    Args:
        seed: of the table.
        spread: standard deviation of the logits; larger is more predictable.
        end: logit of the end token in every row; ``NEVER`` makes every output run to its limit.
    """

    def __init__(self, seed: int = 0, spread: float = 1.5, end: float = 0.0) -> None:
        size = len(VOCABULARY)
        self.logits: NDArray[np.float64] = np.random.default_rng(seed).normal(
            0, spread, (size,) * 2
        )
        self.logits[:, END] = end
        self.logits[:, START] = NEVER

    def drafted_by(self, noise: float, seed: int = 1) -> TableModel:
        """A draft model: this table with normal noise of that standard deviation on its logits."""
        draft = TableModel(seed)
        draft.logits = self.logits + np.random.default_rng(seed).normal(0, noise, self.logits.shape)
        return draft

    def law(self, last: int, settings: Settings) -> NDArray[np.float64]:
        """Probabilities [48] after token ``last``: temperature, then top-k, top-p, min-p."""
        row = self.logits[last]
        if settings.temperature < 1e-5:
            return np.where(np.arange(len(row)) == row.argmax(), 1.0, 0.0)
        law: NDArray[np.float64] = np.exp((row - row.max()) / settings.temperature)
        law = law / law.sum()
        order = np.argsort(-law, kind="stable")
        kept = np.ones(len(law), dtype=bool)
        if settings.top_k > 0:
            kept[order[settings.top_k :]] = False
            law = np.where(kept, law, 0.0) / law[kept].sum()
        before = np.cumsum(law[order]) - law[order]
        kept[order[before >= settings.top_p]] = False
        law = np.where(kept, law, 0.0) / law[kept].sum()
        law = np.where(law < settings.min_p * law.max(), 0.0, law)
        law /= law.sum()
        return law


def tokenised(text: str) -> list[int]:
    """Ids of the words; a word that is no animal becomes one, the same each time."""
    known = {word: number for number, word in enumerate(VOCABULARY)}
    return [
        known.get(word, len(SPECIAL) + sum(word.encode()) % len(WORDS)) for word in text.split()
    ]


def text_of(ids: Sequence[int]) -> str:
    """Text of tokens, a space before every word; special tokens have none."""
    return "".join(f" {VOCABULARY[number]}" for number in ids if number >= len(SPECIAL))
