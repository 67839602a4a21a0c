"""Law checks as a JUnit file, for continuous integration."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

from specbench.laws.outcome import Outcome, Status


def junit(outcomes: Sequence[Outcome]) -> str:
    """An XML document with one suite per sampler and one test case per check.

    What could not be decided is an error, what does not apply is skipped.
    """
    root = ElementTree.Element("testsuites", name="specbench laws")
    for sampler in dict.fromkeys(outcome.sampler for outcome in outcomes):
        own = [outcome for outcome in outcomes if outcome.sampler == sampler]
        statuses = [outcome.status for outcome in own]
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=sampler,
            tests=str(len(own)),
            failures=str(statuses.count(Status.FAILED)),
            errors=str(statuses.count(Status.TOO_FEW)),
            skipped=str(statuses.count(Status.NOT_APPLICABLE)),
        )
        for outcome in own:
            _case(suite, outcome)
    ElementTree.indent(root)
    return ElementTree.tostring(root, "unicode", xml_declaration=True) + "\n"


_ELEMENTS = {
    Status.FAILED: "failure",
    Status.TOO_FEW: "error",
    Status.NOT_APPLICABLE: "skipped",
}


def _case(suite: ElementTree.Element, outcome: Outcome) -> None:
    name = f"{outcome.check}: {outcome.case}"
    case = ElementTree.SubElement(suite, "testcase", classname=outcome.sampler, name=name)
    element = _ELEMENTS.get(outcome.status)
    if element:
        ElementTree.SubElement(case, element, message=outcome.detail)
    else:
        ElementTree.SubElement(case, "system-out").text = outcome.detail
