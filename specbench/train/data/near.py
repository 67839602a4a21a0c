"""Prompts that are too near to one of another set: evaluation prompts are never trained on."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

WORDS = 5
"""Length of a shingle in words."""
NEAR = 0.4
"""Share of the smaller text's shingles that makes two texts near duplicates."""
SHORT = 20
"""Words under which texts are also compared word by word: there one changed word spoils most
shingles."""
ALIKE = 0.8
"""Share of the longer text's words, in any order, that makes two short texts near duplicates."""

# Scripts without spaces (Thai, Lao, Burmese, Khmer, kana, Chinese): each character is a word.
_UNSPACED = (
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
)
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")

Shingle = tuple[str, ...]


def words(text: str) -> list[str]:
    """Words of a text, whatever its case, spaces, punctuation and Unicode form."""
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


def shingles(found: Sequence[str]) -> list[Shingle]:
    """Different runs of five words, in order; none where there are fewer words."""
    runs = (tuple(found[i : i + WORDS]) for i in range(len(found) - WORDS + 1))
    return list(dict.fromkeys(runs))


class NearDuplicates:
    """Texts that are looked for in others.

    Two texts are near duplicates by containment of shingles (Broder 1997): one has at least
    ``NEAR`` of the other's. A shingle that stands in n of the texts counts 1/n, so that an
    instruction which many prompts share does not make them near. Short ones are so too where they
    share ``ALIKE`` of their words.

    Args:
        texts: name -> text; of equal texts the first name is used.
    """

    def __init__(self, texts: Iterable[tuple[str, str]]) -> None:
        named: dict[tuple[str, ...], str] = {}
        for name, text in texts:
            named.setdefault(tuple(words(text)), name)
        named.pop((), None)
        self._names = list(named.values())
        self._short = [(i, w, Counter(w)) for i, w in enumerate(named) if len(w) < SHORT]
        self._index: dict[Shingle, list[int]] = defaultdict(list)
        runs = [shingles(found) for found in named]
        for place, own in enumerate(runs):
            for shingle in own:
                self._index[shingle].append(place)
        self._sizes = [self._weight(own) for own in runs]

    def of(self, text: str) -> str | None:
        """The name of a text that this one is a near duplicate of, or None."""
        found = words(text)
        own = shingles(found)
        shared: dict[int, float] = defaultdict(float)
        for shingle in own:
            holders = self._index.get(shingle, ())
            for place in holders:
                shared[place] += 1 / len(holders)
        size = self._weight(own)
        shares = {i: weight / min(size, self._sizes[i]) for i, weight in shared.items()}
        best = max(shares, key=lambda i: shares[i], default=None)
        if best is not None and shares[best] >= NEAR:
            return self._names[best]
        return self._alike(found)

    def _weight(self, own: Sequence[Shingle]) -> float:
        return sum(1 / len(self._index.get(shingle, (None,))) for shingle in own)

    def _alike(self, found: Sequence[str]) -> str | None:
        if not 0 < len(found) < SHORT:
            return None
        counts = Counter(found)
        for place, other, others in self._short:
            least = ALIKE * max(len(found), len(other))
            if min(len(found), len(other)) >= least and (counts & others).total() >= least:
                return self._names[place]
        return None
