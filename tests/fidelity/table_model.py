"""A language model that is a table: the law of a token depends on the one before it.

Written apart from the code under test: whole rows, plain sums.
"""

from __future__ import annotations

import numpy as np

from specbench.core.request import Sampling
from specbench.fidelity.kept import TopRow

SIZE = 64


class TableModel:
    """Laws of ``SIZE`` tokens after each token; a draft of it is the same table with noise."""

    def __init__(self, seed: int = 0, noise: float = 0.8) -> None:
        rng = np.random.default_rng(seed)
        self.logits = 2.0 * rng.normal(size=(SIZE, SIZE))
        self.draft = self.logits + noise * rng.normal(size=(SIZE, SIZE))

    def row(self, before: int, top: int, vocabulary: bool = True) -> TopRow:
        """What a server lists of one row."""
        log = self.logits[before] - np.log(np.exp(self.logits[before]).sum())
        ids = np.argsort(-log, kind="stable")[:top]
        return TopRow(ids.astype(np.int64), log[ids], SIZE if vocabulary else None, 1e-9)

    def rows(self, first: int, output, top: int, vocabulary: bool = True) -> list[TopRow]:
        """The rows that an output follows behind the token ``first``."""
        return [self.row(before, top, vocabulary) for before in [first, *output][: len(output)]]

    def decode(
        self, first: int, length: int, sampling: Sampling, rng, lenience: float | None = None
    ) -> list[int]:
        """``length`` tokens; with ``lenience`` by speculative sampling of one draft per token."""
        found, before = [], first
        for _ in range(length):
            p = whole(self.logits[before], sampling)
            if lenience is None:
                token = rng.choice(SIZE, p=p)
            else:
                q = whole(self.draft[before], sampling)
                token = rng.choice(SIZE, p=q)
                if rng.random() >= min(1.0, p[token] / (lenience * q[token])):
                    rest = np.maximum(p - lenience * q, 0)
                    token = rng.choice(SIZE, p=rest / rest.sum())
            found.append(int(token))
            before = int(token)
        return found


def whole(logits, sampling: Sampling):
    """Temperature, top-k and top-p on whole rows."""
    if sampling.temperature < 1e-5:
        return np.eye(len(logits))[logits.argmax()]
    p = np.exp(logits / sampling.temperature)
    p /= p.sum()
    order = np.argsort(-p, kind="stable")
    if sampling.top_k:
        p[order[sampling.top_k :]] = 0
        p /= p.sum()
    before = np.concatenate([[0], p[order].cumsum()[:-1]])
    p[order[before >= sampling.top_p]] = 0
    return p / p.sum()
