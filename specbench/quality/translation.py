"""chrF and BLEU of translations, by sacrebleu, each with its signature (case G5).

chrF: Popović 2015. BLEU: Papineni et al. 2002, signatures as in Post 2018. Both are functions of
counts that add up over segments: a resample of a corpus is a weighted sum of counts taken once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from specbench.errors import PrerequisiteError
from specbench.quality.languages import language_code, tokenizer

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

Array = NDArray[np.float64]

_BETA_SQUARED = 4
"""chrF2 counts recall twice as much as precision."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One translation against its reference, as counts.

    Attributes:
        language: code of the target language.
        chrf: n-grams of (translation, reference, both) for characters of order 1 to 6.
        bleu: tokens of translation and reference, matches of order 1 to 4, n-grams of order 1 to 4.
        chrf_signature, bleu_signature: how they were counted, to be printed with the score.
    """

    language: str
    chrf: tuple[int, ...]
    bleu: tuple[int, ...]
    chrf_signature: str
    bleu_signature: str

    @property
    def sentence_chrf(self) -> float:
        """chrF2 of this segment alone, 0 to 100."""
        return float(chrf_scores(np.array(self.chrf, dtype=np.float64)))


def segments(
    translations: Sequence[str], references: Sequence[str], languages: Sequence[str]
) -> list[Segment]:
    """Count each translation against its one reference.

    Args:
        translations, references, languages: one entry per segment, in the same order; an empty
            translation counts with all n-grams of its reference missed.

    Raises:
        ValueError: the numbers of entries differ.
        PrerequisiteError: sacrebleu is not installed.
    """
    sizes = len(translations), len(references), len(languages)
    if len(set(sizes)) != 1:
        raise ValueError(
            "one reference and one language per translation are needed, got "
            f"{sizes[0]} translations, {sizes[1]} references and {sizes[2]} languages"
        )
    metrics: dict[str, tuple[CHRF, BLEU]] = {}
    found = []
    for translation, reference, language in zip(translations, references, languages, strict=True):
        name = tokenizer(language)
        if name not in metrics:
            metrics[name] = _metrics(name)
        chrf, bleu = metrics[name]
        # sacrebleu's references are one list per reference set, not one list per segment.
        texts, sets = [translation], [[reference]]
        found.append(
            Segment(
                language_code(language),
                tuple(chrf._extract_corpus_statistics(texts, sets)[0]),
                tuple(bleu._extract_corpus_statistics(texts, sets)[0]),
                f"chrF{chrf.beta}|{chrf.get_signature()}",
                f"BLEU|{bleu.get_signature()}",
            )
        )
    return found


def _metrics(tokenize: str) -> tuple[CHRF, BLEU]:
    try:
        from sacrebleu.metrics.bleu import BLEU
        from sacrebleu.metrics.chrf import CHRF
    except ImportError as error:
        raise PrerequisiteError(
            "translations are scored with sacrebleu, which is not installed",
            "pip install 'sacrebleu>=2.4'",
        ) from error
    # force: no advice about texts that look tokenized; models write what they write.
    return CHRF(), BLEU(tokenize=tokenize, force=True)


def chrf_scores(counts: Array) -> Array:
    """chrF2, 0 to 100, from ``Segment.chrf`` summed over segments; shape [..., 18] -> [...]."""
    hypothesis, reference, match = (counts[..., start::3] for start in range(3))
    held = (hypothesis > 0) & (reference > 0)
    orders = np.maximum(held.sum(axis=-1), 1)
    precision = np.where(held, match / np.maximum(hypothesis, 1), 0.0).sum(axis=-1) / orders
    recall = np.where(held, match / np.maximum(reference, 1), 0.0).sum(axis=-1) / orders
    below = _BETA_SQUARED * precision + recall
    above = (1 + _BETA_SQUARED) * precision * recall
    return np.asarray(100 * above / np.where(below > 0, below, 1.0))


def bleu_scores(counts: Array) -> Array:
    """BLEU, 0 to 100, with exponential smoothing, from summed ``Segment.bleu``; [..., 10] -> [...].

    The n-th order without a match counts as 1 / 2^n matches (NIST, mteval-v13a).
    """
    length, reference = counts[..., 0], counts[..., 1]
    match, total = counts[..., 2:6], counts[..., 6:]
    missed = (match == 0) & (total > 0)
    smoothed = np.where(missed, 0.5 ** missed.cumsum(axis=-1), match)
    whole: NDArray[np.bool_] = np.logical_and((total > 0).all(-1), (match > 0).any(-1))
    share = np.where(whole[..., None], smoothed / np.maximum(total, 1), 1.0)
    short = np.minimum(1 - reference / np.maximum(length, 1), 0.0)
    return np.asarray(np.where(whole, 100 * np.exp(np.log(share).mean(axis=-1) + short), 0.0))
