"""Costs of steps in a manifest: as they were timed, or why there are none."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from specbench.core.arm import PLAIN
from specbench.core.quantity import Absence
from specbench.core.step_costs import ArmCosts, StepCost, StepCosts
from specbench.results.schema import ResultError, manifest_document, read_manifest
from specbench.results.step_costs import arm_costs, step_costs
from tests.results.records import MANIFEST

NGRAM = ArmCosts(
    0.0, 1, 31.5, 48, StepCost(24, 2.75, 1.3, 0.01, 1.2, 0.09), StepCost(7, 0, 1, None, None, None)
)
FOUND = StepCosts({"ngram": (NGRAM,)})


def with_steps(document):
    return replace(MANIFEST, calibration={"steps": document})


def test_what_was_timed_is_read_back():
    written = manifest_document(with_steps(asdict(FOUND)))
    assert step_costs(read_manifest(written, "manifest.json")) == FOUND


def test_an_older_manifest_has_none():
    assert step_costs(MANIFEST) is None
    assert step_costs(replace(MANIFEST, calibration={"first_request_ms": {}})) is None


def test_a_damaged_one_is_named():
    document = asdict(FOUND)
    document["arms"]["ngram"][0]["t1_ms"] = "fast"
    with pytest.raises(
        ResultError, match=r"run-1: calibration\.steps\.arms\.ngram\.0\.t1_ms = 'fast'"
    ):
        step_costs(with_steps(document))


def test_each_cell_gets_its_costs_or_the_reason():
    assert arm_costs(FOUND, MANIFEST, "ngram", 0.0, 1) == NGRAM
    other = arm_costs(FOUND, MANIFEST, "ngram", 0.7, 1)
    assert (other.absence, "could be timed" in other.reason) == (Absence.NOT_AVAILABLE, True)
    server = arm_costs(StepCosts(reason="no ticks"), MANIFEST, "ngram", 0.0, 1)
    assert (server.absence, server.reason) == (Absence.NOT_AVAILABLE, "no ticks")
    idle = arm_costs(FOUND, MANIFEST, PLAIN, 0.0, 1)
    assert (idle.absence, "K = 0" in idle.reason) == (Absence.NOTHING_TO_MEASURE, True)
