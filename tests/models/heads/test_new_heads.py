"""New heads draft the tokens that are asked for, of any family and layout."""

from __future__ import annotations

import pytest
import torch

from specbench.errors import UsageError
from specbench.models.heads.new import new_head
from specbench.models.heads.write import LAYOUTS, write_head
from specbench.models.locate import locate
from tests.models.heads import fixtures as made
from tests.models.heads.reading import read

IDS = [90, 3, 127, 64, 0]
OWN = {"v1", "vllm"}
"""Layouts whose heads have projections."""


@pytest.fixture
def target(tmp_path):
    """The fixtures' target."""
    config = made.llama_config(num_hidden_layers=made.LAYERS, torch_dtype="float32")
    made.write(tmp_path / "target", config, made.small_model(), "model.safetensors")
    return locate(str(tmp_path / "target"), needs_tokenizer=False)


@pytest.mark.parametrize(
    ("family", "layout"), [(family, name) for family, names in LAYOUTS.items() for name in names]
)
def test_exactly_the_ids_that_are_asked_for(tmp_path, target, family, layout):
    head, written = new_head(target, family, layout=layout, draft_ids=IDS)
    assert written == layout
    assert head.tensors["target_ids"].tolist() == sorted(IDS)
    assert head.tensors["target_ids"].dtype == torch.int64
    assert head.config.draft_vocabulary == len(IDS)
    projections = [n for n in head.tensors if n.endswith(("head.weight", "projection.weight"))]
    assert bool(projections) == (layout in OWN)
    rows = made.small_model()["lm_head.weight"][sorted(IDS)]
    assert all(torch.equal(head.tensors[name], rows) for name in projections)
    found = read(write_head(head, tmp_path / "head", layout), family)
    assert found.tensors["target_ids"].tolist() == sorted(IDS)
    assert found.config.draft_vocabulary == len(IDS)


@pytest.mark.parametrize("family", LAYOUTS)
def test_the_rest_of_a_head_does_not_depend_on_its_tokens(target, family):
    some, _ = new_head(target, family, seed=3, draft_ids=IDS)
    every, _ = new_head(target, family, seed=3)
    assert some.tensors.keys() - every.tensors.keys() == {"target_ids"}
    assert all(torch.equal(some.tensors[name], every.tensors[name]) for name in every.tensors)


@pytest.mark.parametrize("family", LAYOUTS)
def test_all_ids_are_no_map(target, family):
    for asked in ({"draft_ids": range(made.VOCABULARY)}, {"draft_vocabulary": made.VOCABULARY}):
        head, _ = new_head(target, family, **asked)
        assert "target_ids" not in head.tensors
        assert head.config.draft_vocabulary == made.VOCABULARY


@pytest.mark.parametrize("family", LAYOUTS)
def test_a_number_of_tokens_are_the_first_ones(target, family):
    head, _ = new_head(target, family, draft_vocabulary=4)
    assert head.tensors["target_ids"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"draft_ids": [1, 5, 1]}, "token 1 twice"),
        ({"draft_ids": []}, "of no tokens"),
        ({"draft_ids": [-1, 4]}, "from -1 to 4, the target has 128"),
        ({"draft_ids": [4, 128]}, "from 4 to 128, the target has 128"),
        ({"draft_ids": [4], "draft_vocabulary": 1}, "1 tokens and one of 1 named ones"),
        ({"draft_vocabulary": 0}, "0 tokens, the target has 128"),
    ],
)
@pytest.mark.parametrize("family", LAYOUTS)
def test_ids_that_there_are_not(target, family, asked, message):
    with pytest.raises(UsageError, match=message):
        new_head(target, family, **asked)
