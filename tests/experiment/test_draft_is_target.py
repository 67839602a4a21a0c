"""Whose full acceptance is expected: a draft with the target's weights, stored in the same way."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specbench.core.manifest import ArmFactors
from specbench.experiment.guarding import draft_is_target
from tests.results.records import IDENTITY, MANIFEST

EXPERIMENT = {
    "schema_version": 1,
    "target": {"model": "target-model"},
    "workload": {"suites": ["code"]},
}


def judged(drafts=(), options=None, drafter="draft_model", quant="none", weights="w"):
    arm = ArmFactors("arm", drafter, 3, "rejection", "native", drafter_options=options or {})
    manifest = replace(
        MANIFEST,
        experiment=EXPERIMENT,
        identity=replace(IDENTITY, quant=quant, weight_hash=weights),
        arms=(arm,),
        engine={"target": {"layers": 30}, "drafts": {"arm": list(drafts)} if drafts else {}},
    )
    return draft_is_target(manifest, arm)


def model(weights, quant="none"):
    return {"name": "m", "weight_hash": weights, "quant": quant}


def test_the_same_weights_are_the_target_whatever_they_are_called():
    assert judged([model("w")], {"model": "another-name"})
    assert not judged([model("v")], {"model": "target-model"})
    assert judged([model("w", "int8")], quant="int8")


def test_a_quantised_copy_is_not_the_target():
    assert not judged([model("w", "int4-g32")], {"model": "target-model"})
    assert not judged([model("w")], {"model": "target-model"}, quant="int8")


def test_one_of_several_drafts_is_enough():
    assert judged([model("v"), model("w")], drafter="multi_draft")


def test_a_head_in_the_target_s_files_has_their_hash_and_is_not_the_target():
    head = {**model("w"), "family": "mtp"}
    assert not judged([head], {"model": "target-model"}, drafter="mtp")
    assert judged([head, model("w")])


@pytest.mark.parametrize("facts", [[], [model("unknown")], [{"name": "m"}]])
def test_an_engine_that_does_not_say_is_judged_by_the_name(facts):
    assert judged(facts, {"model": "target-model"})
    assert not judged(facts, {"model": "another-name"})


def test_unknown_weights_of_the_target_are_judged_by_the_name():
    assert judged([model("v")], {"model": "target-model"}, weights="unknown")


def test_an_exit_behind_the_last_layer_is_the_target():
    assert judged(options={"layers": 30}, drafter="layer_skip")
    assert not judged(options={"layers": 29}, drafter="layer_skip")
    assert not judged(drafter="layer_skip")
