"""Bigram tables are told from heads and models, by their headers alone."""

from __future__ import annotations

import json

import pytest
import torch

from specbench.errors import PrerequisiteError, UsageError
from specbench.models.heads.describe import describe_heads
from specbench.models.heads.files import open_checkpoint
from specbench.models.heads.planning import plan_head
from specbench.models.heads.sniff import holds_only_a_head, sniff
from specbench.models.heads.table import table_facts
from specbench.models.locate import locate
from tests.models.heads import fixtures
from tests.models.heads.reading import other_target
from tests.models.tables import write_table


@pytest.fixture
def table(tmp_path):
    return write_table(tmp_path / "table", [-1] * fixtures.VOCABULARY)


def test_a_table_is_neither_head_nor_model(table):
    contents = sniff(open_checkpoint(table))
    assert (contents.heads, contents.foreign, contents.model, contents.table) == (
        (),
        None,
        False,
        True,
    )
    assert holds_only_a_head(table)


def test_the_file_stands_for_its_folder(table, monkeypatch):
    found = locate(str(table / "bigram.safetensors"))
    assert (found.kind, found.path) == ("folder", table)
    assert found.name == str(table / "bigram.safetensors")
    monkeypatch.chdir(table)
    assert locate("bigram.safetensors").path.resolve() == table
    # one directory and a file: not taken for a hub id
    with pytest.raises(PrerequisiteError, match=r"no file none/bigram\.safetensors"):
        locate("none/bigram.safetensors")


def test_it_is_described_as_what_it_is(table):
    heads = describe_heads(open_checkpoint(table), fixtures.TARGET)
    assert (heads.contents, heads.model) == ("bigram table", False)
    (found,) = heads.native
    assert (found.family, found.layout, found.drafters) == ("bigram", "table", ("bigram",))
    assert found.fields == {"vocabulary": 128, "tokens": 9, "target": "org/target"}
    assert (found.tensors, found.parameters, found.size_bytes) == (1, 128, 512)
    assert (found.taps, found.problem) == ((), None)


def test_another_target_is_a_problem(table):
    heads = describe_heads(open_checkpoint(table), other_target(vocabulary=64))
    assert "the bigram table has 128 tokens, the target 64" in str(heads.native[0].problem)


@pytest.mark.parametrize("family", ["eagle3", "medusa", "mtp"])
def test_a_drafter_of_heads_is_told_which_drafter_reads_it(table, family):
    with pytest.raises(UsageError, match=f"arm a: .* holds a bigram table, not {family}") as caught:
        plan_head(open_checkpoint(table), [family], fixtures.TARGET, "a")
    assert caught.value.hint == 'set drafter = "bigram"'


@pytest.mark.parametrize(
    ("tensors", "config", "message"),
    [
        ({"nxt": torch.zeros(4, dtype=torch.int32)}, {}, "lacks tensor next"),
        ({"next": torch.zeros(4)}, {}, r"next is F32 of shape \[4\]"),
        ({"next": torch.zeros(2, 2, dtype=torch.int32)}, {}, r"next is I32 of shape \[2, 2\]"),
        ({"next": torch.zeros(4, dtype=torch.int64)}, {}, "next is I64"),
        ({"next": torch.zeros(4, dtype=torch.int32)}, {"vocabulary": 5}, "says 5 tokens"),
        ({"next": torch.zeros(4, dtype=torch.int32)}, {"vocabulary": "4"}, "says '4' tokens"),
    ],
)
def test_damaged_tables(tmp_path, tensors, config, message):
    said = {"model_type": "bigram"} | config
    fixtures.write(tmp_path / "table", said, tensors, "bigram.safetensors")
    checkpoint = open_checkpoint(tmp_path / "table")
    with pytest.raises(PrerequisiteError, match=message):
        table_facts(checkpoint, None)
    assert describe_heads(checkpoint, None).native[0].problem


def test_a_configuration_need_not_say_more_than_what_it_is(table):
    (table / "config.json").write_text(json.dumps({"model_type": "bigram"}))
    facts = table_facts(open_checkpoint(table), 128)
    assert facts == {"vocabulary": 128, "tokens": None, "target": None}
