"""Law checks as a JUnit file, for continuous integration."""

from __future__ import annotations

from collections.abc import Sequence

from specbench.core.junit import Case, Element
from specbench.core.junit import junit as document
from specbench.laws.outcome import Outcome, Status

_ELEMENTS: dict[Status, Element] = {
    Status.FAILED: "failure",
    Status.TOO_FEW: "error",
    Status.NOT_APPLICABLE: "skipped",
}


def junit(outcomes: Sequence[Outcome]) -> str:
    """An XML document with one suite per sampler and one test case per check.

    What could not be decided is an error, what does not apply is skipped.
    """
    return document(
        "specbench laws",
        [
            Case(one.sampler, f"{one.check}: {one.case}", one.detail, _ELEMENTS.get(one.status, ""))
            for one in outcomes
        ],
    )
