"""Outcomes as JUnit, read back by another parser."""

from xml.dom import minidom

from specbench.laws.junit import junit
from specbench.laws.outcome import Outcome, Status, guarded

FOUND = [
    Outcome("a", "law", "three tokens", Status.PASSED, "off by 1e-09", 1e-9, 0.0),
    Outcome("a", "law", "four tokens", Status.FAILED, 'off by 0.1, "<&>"', 0.1, 0.0),
    Outcome("b", "mutant", "shared noise", Status.NOT_APPLICABLE, "cannot be planted"),
    Outcome("b", "law", "three tokens", Status.TOO_FEW, "raise --samples"),
]


def test_every_outcome_is_a_test_case_of_its_sampler():
    document = minidom.parseString(junit(FOUND))
    suites = document.getElementsByTagName("testsuite")
    keys = ("name", "tests", "failures", "errors", "skipped")
    assert [[suite.getAttribute(key) for key in keys] for suite in suites] == [
        ["a", "2", "1", "0", "0"],
        ["b", "2", "0", "1", "1"],
    ]
    cases = document.getElementsByTagName("testcase")
    assert [case.getAttribute("name") for case in cases] == [
        "law: three tokens",
        "law: four tokens",
        "mutant: shared noise",
        "law: three tokens",
    ]
    inside = [case.getElementsByTagName("*")[0] for case in cases]
    assert [node.tagName for node in inside] == ["system-out", "failure", "skipped", "error"]
    assert inside[1].getAttribute("message") == 'off by 0.1, "<&>"'


def test_whatever_is_raised_becomes_a_failure():
    def work():
        raise KeyError("first\nsecond")

    outcome = guarded("a", "law", "one", work)
    assert (outcome.status, outcome.detail) == (Status.FAILED, "KeyError: 'first\\nsecond'")
