"""A run with a table that ships and was counted for other weights: recorded, told, not refused."""

from __future__ import annotations

import json

import pytest

from specbench.errors import PrerequisiteError, UsageError
from specbench.experiment.load import Flags, load_experiment
from specbench.experiment.other_targets import other_targets
from specbench.experiment.prepare import prepare
from specbench.experiment.session import Hooks, Session
from specbench.models import zoo
from specbench.models.weights import weight_hash
from specbench.results.read import read_run
from tests.experiment.replayed_run import write_model
from tests.models.tables import write_table
from tests.models.tiny import byte_level_tokens

pytestmark = pytest.mark.usefixtures("one_thread")

EXPERIMENT = """
schema_version = 1
name = "floor"
[target]
model = "{folder}/tiny"
[workload]
suites = ["{folder}/prompts.jsonl"]
split = "all"
temperatures = [0.0]
max_new_tokens = 12
[arm.floor]
drafter = "bigram"
k = 3
options = {{ model = "zoo:{name}" }}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    write_model(tmp_path / "tiny")
    write_table(tmp_path / "zoo" / "other", [2] * len(byte_level_tokens()))
    own = {"target": "tiny", "weight_hash": weight_hash(tmp_path / "tiny")}
    write_table(tmp_path / "zoo" / "own", [2] * len(byte_level_tokens()), **own)
    rows = [{"id": f"p{i}", "category": "all", "turns": [f"say {i}"]} for i in range(2)]
    (tmp_path / "prompts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setattr(zoo, "zoo_folder", lambda: tmp_path / "zoo")
    return tmp_path


def prepared(folder, name):
    experiment = folder / "experiment.toml"
    experiment.write_text(EXPERIMENT.format(folder=folder, name=name))
    return prepare(load_experiment(str(experiment), Flags()))


def run(folder, name):
    told: list[str] = []
    made = Session(prepared(folder, name), folder / "results").run(Hooks(note=told.append))
    return read_run(made), [line for line in told if line.startswith("warning")]


def test_another_target_is_recorded_and_told(folder):
    recorded, warnings = run(folder, "other")
    assert recorded.finished
    (draft,) = recorded.manifest.engine["drafts"]["floor"]
    assert draft["name"] == "zoo:other"
    assert draft["weight_hash"] == weight_hash(folder / "zoo" / "other" / "bigram.safetensors")
    said = {"name": "org/target", "weight_hash": "ab" * 32, "trained_on": ""}
    assert draft["made_for"] == said
    assert "made for org/target" in draft["oddities"][0]
    (line,) = warnings
    assert line.startswith(
        "warning: arm floor: zoo:other was made for org/target with weights abab"
    )


def test_its_own_target_is_not(folder):
    recorded, warnings = run(folder, "own")
    (draft,) = recorded.manifest.engine["drafts"]["floor"]
    assert (draft["name"], draft["oddities"], warnings) == ("zoo:own", [], [])


def test_names_are_looked_up_before_anything_loads(folder, monkeypatch):
    with pytest.raises(UsageError, match="unknown head 'zoo:othr'"):
        prepared(folder, "othr")
    monkeypatch.setattr(zoo, "zoo_folder", lambda: folder / "absent")
    with pytest.raises(PrerequisiteError, match="no heads came with"):
        prepared(folder, "other")


MADE = {"name": "a", "weight_hash": "1" * 64}


@pytest.mark.parametrize(
    ("target", "made", "count"),
    [
        ({"name": "t", "weight_hash": "2" * 64}, MADE, 1),
        ({"name": "t", "weight_hash": "1" * 64}, MADE, 0),
        ({"name": "t", "weight_hash": "unknown"}, MADE, 0),
        ({"name": "t"}, MADE, 0),
        ({"name": "t", "weight_hash": "2" * 64}, None, 0),
        (None, MADE, 0),
    ],
)
def test_only_known_weights_that_differ_are_told(target, made, count):
    facts = {"target": target, "drafts": {"arm": [{"name": "h", "made_for": made}], "none": []}}
    assert len(other_targets(facts)) == count
    assert other_targets({"target": target}) == []
