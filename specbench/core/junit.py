"""JUnit XML, which continuous integration shows as a list of tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from xml.etree import ElementTree

Element = Literal["", "failure", "error", "skipped"]


@dataclass(frozen=True, slots=True)
class Case:
    """One test case.

    Attributes:
        suite, name: what was tested.
        text: what came out.
        element: what stands for its outcome; empty where it passed.
    """

    suite: str
    name: str
    text: str
    element: Element = ""


def junit(title: str, cases: Sequence[Case]) -> str:
    """An XML document with the cases by suite, in order of first appearance."""
    root = ElementTree.Element("testsuites", name=title)
    for name in dict.fromkeys(case.suite for case in cases):
        own = [case for case in cases if case.suite == name]
        elements = [case.element for case in own]
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=name,
            tests=str(len(own)),
            failures=str(elements.count("failure")),
            errors=str(elements.count("error")),
            skipped=str(elements.count("skipped")),
        )
        for case in own:
            found = ElementTree.SubElement(suite, "testcase", classname=name, name=case.name)
            if case.element:
                ElementTree.SubElement(found, case.element, message=case.text)
            else:
                ElementTree.SubElement(found, "system-out").text = case.text
    ElementTree.indent(root)
    return ElementTree.tostring(root, "unicode", xml_declaration=True) + "\n"
