"""From the confirmation to a recommendation: the candidate where that shows it pays, else plain."""

from __future__ import annotations

from collections.abc import Sequence

from specbench.core.arm import PLAIN
from specbench.results.summary import Figure
from specbench.results.sweep.candidates import Candidate
from specbench.results.sweep.summary import Confirmed, Recommended
from specbench.stats.power import ALPHA


def recommend(
    load: int, candidate: Candidate | None, found: Confirmed | None, reasons: Sequence[str] = ()
) -> Recommended:
    """The answer at one load.

    The candidate was named on other prompts, so that its interval on these is that of one planned
    comparison. Where it does not lie above 1, or a swap test disagrees, plain is recommended.

    Args:
        candidate: the one that was confirmed; None where none could be.
        found: what the test split said; None where there is no such run.
        reasons: why no candidate could be confirmed.
    """
    if candidate is None or found is None:
        why = "; ".join(reasons) or "nothing was measured"
        return _plain(load, f"plain is recommended: no K could be confirmed ({why})")
    speed = found.figures["speedup"]
    seen = f"{candidate.name} ran at {_times(speed)} plain on {_basis(found)}"
    if found.refused and found.plain_refused:
        text = f"nothing is recommended: {candidate.name}: {found.refused}; plain: "
        return Recommended(load, "", 0, None, False, _said(load, text + found.plain_refused))
    if found.refused:
        return _plain(load, f"plain is recommended: {seen}, but {found.refused}")
    paid = speed.low is not None and speed.low > 1 and found.p is not None and found.p <= ALPHA
    if found.guards and paid:
        what = ", ".join(found.guards)
        return _plain(load, f"plain is recommended: {seen}, but that is not to be trusted ({what})")
    if paid:
        text = f"{candidate.name} is recommended: {_times(speed)} plain on {_basis(found)}"
        text += _beside(found)
        return Recommended(
            load, candidate.name, candidate.k, candidate.nodes, True, _said(load, text)
        )
    if found.plain_refused:
        text = f"{seen}, which is not shown to pay, but plain: {found.plain_refused}"
        return Recommended(
            load,
            candidate.name,
            candidate.k,
            candidate.nodes,
            False,
            _said(load, f"{candidate.name} is recommended for its latencies alone: {text}"),
        )
    return _plain(load, f"plain is recommended: {seen}, {_no_gain(found)}")


def stops_paying(answers: Sequence[Recommended]) -> int | None:
    """The lowest load from which on, upwards, no K was shown to pay.

    Args:
        answers: by load, ascending.
    """
    found = None
    for answer in reversed(answers):
        if answer.pays:
            break
        found = answer.load
    return found


def _plain(load: int, text: str) -> Recommended:
    return Recommended(load, PLAIN, 0, None, False, _said(load, text))


def _said(load: int, text: str) -> str:
    return f"Load {load}: {text}."


def _times(figure: Figure) -> str:
    if figure.value is None:
        return f"an unknown speed ({figure.reason}) beside"
    text = f"{figure.value:.2f}x"
    if figure.low is not None and figure.high is not None:
        text += f" [95 % interval {figure.low:.2f} to {figure.high:.2f}]"
    return text


def _basis(found: Confirmed) -> str:
    return f"{found.prompts} prompts of the {found.split} split"


def _beside(found: Confirmed) -> str:
    """How the runner-up did; the test split judges it, it does not choose it."""
    ratio = found.figures.get("runner")
    if not found.runner or ratio is None or ratio.value is None:
        return ""
    text = f"; the runner-up {found.runner} ran at {_times(ratio)} of its speed"
    if ratio.low is not None and ratio.low > 1:
        text += ", which more dev prompts would have shown"
    return text


def _no_gain(found: Confirmed) -> str:
    speed = found.figures["speedup"]
    if speed.low is None or speed.high is None or found.p is None:
        return "without an interval: too few units to show a gain"
    if speed.high < 1:
        return "which is slower"
    if speed.low > 1:
        return f"but a swap test does not agree (p = {found.p:.2f}): more prompts decide"
    return "which shows no gain"
