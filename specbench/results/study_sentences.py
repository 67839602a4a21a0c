"""What a study says of accept length, in sentences that claim no more than its data show."""

from __future__ import annotations

from collections.abc import Sequence

from specbench.core.quantity import Quantity
from specbench.results.contrasts import Contrast, claimed, excludes_zero

NO_DIFFERENCE = "no difference detected at this n"


def setting_sentences(found: Sequence[Contrast], place: str, key: str) -> list[str]:
    """One sentence per family of arms, about one temperature and concurrency.

    Args:
        found: all contrasts of the setting.
        place: the setting in words, e.g. ``At temperature 0``.
        key: the study's key.
    """
    shown = list(zip(found, claimed(found), strict=True))
    lines = []
    for base in dict.fromkeys(contrast.base for contrast in found):
        family = [(contrast, seen) for contrast, seen in shown if contrast.base == base]
        clauses = [_claim(contrast, key) for contrast, seen in family if seen]
        unseen = [_unseen(contrast, key, len(found)) for contrast, seen in family if not seen]
        if unseen:
            clauses.append(f"{NO_DIFFERENCE}: {', '.join(unseen)}")
        lines.append(f"{place}, {base}: {'; '.join(clauses)}.")
    return lines


def _claim(contrast: Contrast, key: str) -> str:
    costs = contrast.difference.number() < 0
    size = _sized(contrast.difference, -1 if costs else 1, ".3f")
    return f"{_what(contrast, key)} {'costs' if costs else 'adds'} {size} of accept length"


def _sized(difference: Quantity, sign: int, form: str) -> str:
    assert difference.low is not None
    assert difference.high is not None
    low, high = sorted((sign * difference.low, sign * difference.high))
    return f"{sign * difference.number():{form}} [{low:{form}}, {high:{form}}]"


def _unseen(contrast: Contrast, key: str, total: int) -> str:
    return f"{_what(contrast, key)} ({_limit(contrast.difference, contrast.detectable, total)})"


def _limit(difference: Quantity, detectable: Quantity, total: int) -> str:
    """Why a difference is not claimed: too little data, equal figures, or too small to be seen."""
    if not difference.known:
        return str(difference.value)
    prompts = f"{difference.n} prompts"
    if excludes_zero(difference):
        size = _sized(difference, 1, "+.3f")
        return f"{prompts}, {size}, not beyond chance among {total} comparisons"
    if difference.low is None and "equal on all" in difference.method:
        return f"equal on all {prompts}"
    if not detectable.known:
        return f"{prompts}, too few to tell"
    return f"{prompts}, smallest detectable {detectable.number():.3f}"


def _what(contrast: Contrast, key: str) -> str:
    """What was changed, in words."""
    target, draft = contrast.target, contrast.draft
    if key != "target.quant":
        words = [*([target] if target else []), *([f"the draft in {draft}"] if draft else [])]
        return " with ".join(words)
    if target and draft:
        same = target == draft
        return (
            f"quantising both to {target}"
            if same
            else (f"quantising the target to {target} and the draft to {draft}")
        )
    return f"quantising the target to {target}" if target else f"quantising the draft to {draft}"
