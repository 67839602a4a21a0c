"""`specbench models inspect` and `specbench list heads` on what ships, and on bigram tables."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from specbench.cli.list import heads
from specbench.cli.main import call
from specbench.cli.models import models
from specbench.errors import PrerequisiteError
from specbench.models import zoo
from tests.models.heads import fixtures as made
from tests.models.tables import write_table


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A folder of heads in the place of the installed one."""
    monkeypatch.setenv("SPECBENCH_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "zoo"
    made.eagle3(folder / "tiny-eagle3")
    write_table(folder / "tiny-bigram", [-1] * made.VOCABULARY)
    card = {
        "target": {"name": "tiny", "weight_hash": "12" * 32},
        "suites": {"code": {"accept_length": 2.4}},
    }
    (folder / "tiny-eagle3" / "training.json").write_text(json.dumps(card))
    monkeypatch.setattr(zoo, "zoo_folder", lambda: folder)
    return folder


@pytest.fixture
def target(tmp_path):
    folder = tmp_path / "target"
    config = made.llama_config(num_hidden_layers=made.LAYERS)
    made.write(folder, config, made.small_model(), "model.safetensors")
    return folder


def inspect(*arguments):
    done = CliRunner().invoke(models, ["inspect", *map(str, arguments)])
    pairs = [(line[:13].strip(), line[13:].strip()) for line in done.stdout.splitlines()]
    return done, dict(reversed(pairs))


def test_a_head_by_its_name(root, target):
    done, lines = inspect("zoo:tiny-eagle3", "--target", target)
    assert done.exit_code == 0, done.output
    assert lines["name"] == "zoo:tiny-eagle3 (zoo)"
    assert lines["source"] == "ships with specbench"
    assert lines["path"] == str(root / "tiny-eagle3")
    assert lines["head"] == "family eagle3, layout official"
    assert lines["load as"] == 'drafter = "eagle3", options = { model = "zoo:tiny-eagle3" }'
    assert lines["fits"].endswith("hidden size, vocabulary and layers agree")
    assert lines["made for"] == "tiny, weights 121212121212"
    assert f"made for tiny with weights 121212121212, but {target} has weights" in done.stdout


def test_the_target_that_it_was_made_for_is_not_odd(root, target):
    alone, facts = inspect(target, "--json")
    assert alone.exit_code == 0, facts
    card = {"target": {"name": "tiny", "weight_hash": json.loads(alone.stdout)["weight_hash"]}}
    (root / "tiny-eagle3" / "training.json").write_text(json.dumps(card))
    done, _ = inspect("zoo:tiny-eagle3", "--target", target)
    assert done.exit_code == 0, done.output
    assert "but" not in done.stdout


def test_a_table_is_no_head(root, target):
    done, lines = inspect("zoo:tiny-bigram", "--target", target)
    assert done.exit_code == 0, done.output
    assert "bigram table" in lines
    assert "head" not in lines
    assert lines["holds"] == "vocabulary 128, counted over 9 tokens"
    assert lines["stored"] == "1 tensor, 128 parameters, 0.0 MB"
    assert lines["reads"] == "the last token alone"
    assert lines["load as"] == 'drafter = "bigram", options = { model = "zoo:tiny-bigram" }'
    assert lines["fits"] == f"{target}: vocabulary agrees"
    done, lines = inspect(root / "tiny-bigram", "--json")
    assert json.loads(done.stdout)["drafting"]["contents"] == "bigram table"


def test_a_table_of_another_vocabulary(root, target):
    write_table(root / "small", [0])
    done, lines = inspect("zoo:small", "--target", target)
    assert isinstance(done.exception, PrerequisiteError)
    assert lines["problem"].endswith("the bigram table has 1 tokens, the target 128")


def test_the_list_of_heads(root, capsys):
    assert call(["list", "heads", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows == heads(root)
    size = (root / "tiny-eagle3" / "model.safetensors").stat().st_size
    assert rows[1] == {
        "name": "zoo:tiny-eagle3",
        "family": "eagle3",
        "target": "tiny",
        "layout": "official",
        "bytes": size,
        "accept_length": {"code": 2.4},
    }
    assert call(["list", "heads"]) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split() == ["name", "family", "target", "layout", "bytes", "accept_length"]
    assert lines[1].split() == [
        "zoo:tiny-eagle3",
        "eagle3",
        "tiny",
        "official",
        str(size),
        "code=2.4",
    ]


def test_an_installation_without_heads_and_a_damaged_head(root, tmp_path):
    assert heads(tmp_path / "absent") == [{"note": "no heads in this installation"}]
    (root / "tiny-bigram" / "bigram.safetensors").write_bytes(b"torn")
    assert heads(root)[0].keys() == {"name", "note"}
    assert "not a safetensors file" in str(heads(root)[0]["note"])
