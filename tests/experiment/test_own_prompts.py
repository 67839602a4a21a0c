"""Which part of a suite is used where nobody says: own prompts whole, catalogued suites cut."""

from __future__ import annotations

import json

import pytest

from specbench.experiment.load import Flags, load_experiment
from specbench.experiment.prepare import prepare
from specbench.experiment.schema import check
from specbench.suites.split import split_of

IDS = [f"p{i}" for i in range(12)]
IN_TEST = [name for name in IDS if split_of("mine", name) == "test"]


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "mine.jsonl"
    path.write_text("".join(json.dumps({"id": i, "prompt": f"say {i}"}) + "\n" for i in IDS))
    return str(path)


def prepared(*suites, **flags):
    found = Flags(engine="scripted", target="m", suites=suites, **flags)
    return prepare(load_experiment(None, found))


def used(run):
    return {use.name: use.split for use in run.suite_uses()}


def test_own_prompts_are_used_whole_unless_a_split_is_given(mine):
    assert 0 < len(IN_TEST) < len(IDS)
    whole = prepared(mine)
    assert sorted(p.id for p in whole.selection["mine"]) == sorted(IDS)
    assert used(whole) == {"mine": "all"}
    cut = prepared(mine, split="test")
    assert sorted(p.id for p in cut.selection["mine"]) == sorted(IN_TEST)
    assert used(cut) == {"mine": "test"}


def test_each_suite_of_a_run_has_its_own_split(mine):
    run = prepared(mine, "code", limit=12)
    assert used(run) == {"mine": "all", "code": "test"}
    assert {p.split for p in run.selection["code"]} == {"test"}
    assert len(run.selection["mine"]) == 12
    inside, total = run.offered(run.suites[1])
    assert 0 < inside < total


def test_public_sets_are_used_whole():
    workload = check(
        {"schema_version": 1, "target": {"model": "m"}, "workload": {"suites": ["humaneval"]}}, ""
    ).workload
    assert (workload.split_of("humaneval"), workload.split_of("chat")) == ("all", "test")


@pytest.mark.parametrize(
    ("suites", "given", "stored"),
    [
        (["code"], None, "test"),
        (["x.jsonl"], None, "all"),
        (["x.jsonl"], "test", "test"),
        (["x.jsonl", "code"], None, None),
        (["x.jsonl", "code"], "test", "test"),
    ],
)
def test_the_file_of_a_run_chooses_the_same_again(suites, given, stored):
    workload = {"suites": suites} | ({} if given is None else {"split": given})
    before = check({"schema_version": 1, "target": {"model": "m"}, "workload": workload}, "")
    kept = before.resolved()
    assert kept["workload"].get("split") == stored
    again = check(kept, "run")
    assert again.resolved() == kept
    for suite in suites:
        assert again.workload.split_of(suite) == before.workload.split_of(suite)
