"""Writers: what is written reads as the same head, in the names that other programs expect."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

from specbench.decoding.protocols import Tap
from specbench.errors import UsageError
from specbench.models.heads.write import LAYOUTS, layouts_of, write_head
from tests.models.heads import fixtures as made
from tests.models.heads import mtp_fixtures
from tests.models.heads.fixtures import TARGET, noise
from tests.models.heads.made_heads import ENTERING, LEAVING, eagle, medusa, mtp
from tests.models.heads.reading import read

HEADS = [
    ("official", eagle(1)),
    ("official", eagle(1, fc_bias=True, attention_bias=True, rope_theta=10000.0)),
    ("official", eagle(1, draft_vocabulary=48)),
    ("speculators", eagle(1, draft_vocabulary=48)),
    ("speculators", eagle(1)),
    ("speculators", eagle(1, fc_bias=True, rope_scaling={"rope_type": "linear", "factor": 2.0})),
    ("official", eagle(3)),
    ("official", eagle(3, draft_vocabulary=48, fc_norm=True)),
    ("specforge", eagle(3, taps=LEAVING, norm_before_fc=True)),
    ("specforge", eagle(3, norm_before_residual=True)),
    ("speculators", eagle(3, recycle="post_norm", fc_norm=True, draft_vocabulary=48)),
    ("speculators", eagle(3, norm_before_residual=True, taps=(Tap(1, "entering"), *ENTERING[1:]))),
    ("v1", medusa("own", blocks=2)),
    ("v2", medusa("target")),
    ("vllm", medusa("own")),
    ("vllm", medusa("one", draft_vocabulary=48)),
    ("nextn", mtp("nextn")),
    ("nextn", mtp("nextn", "glm4_moe")),
    ("mimo", mtp("mimo", "mimo")),
    ("speculators", mtp("speculators")),
]


@pytest.mark.parametrize("pickled", [False, True])
@pytest.mark.parametrize(("layout", "head"), HEADS)
def test_what_is_written_reads_as_the_same_head(tmp_path, layout, head, pickled):
    write_head(head, tmp_path / "head", layout, pickled=pickled)
    target = getattr(head.config, "target", TARGET)
    found = read(tmp_path / "head", target=target, dtype="auto")
    assert (found.family, found.layout) == (head.family, layout)
    assert found.config == head.config
    assert found.tensors.keys() == head.tensors.keys()
    assert all(torch.equal(found.tensors[name], head.tensors[name]) for name in head.tensors)


def test_every_layout_is_tried():
    assert {(head.family, layout) for layout, head in HEADS} == {
        (family, layout) for family in LAYOUTS for layout in layouts_of(family)
    }


@pytest.mark.parametrize(
    ("fixture", "layout"),
    [
        (lambda folder: made.eagle1(folder, file="model.safetensors"), "official"),
        (made.eagle1_speculators, "speculators"),
        (made.eagle3, "official"),
        (made.eagle3_specforge, "specforge"),
        (made.eagle3_speculators, "speculators"),
        (made.medusa_v2, "v2"),
        (lambda folder: made.medusa_v1(folder, file="medusa_lm_head.safetensors"), "v1"),
        (made.medusa_vllm, "vllm"),
        (mtp_fixtures.mimo, "mimo"),
        (mtp_fixtures.speculators, "speculators"),
        (lambda folder: mtp_fixtures.nextn(folder, copies="none"), "nextn"),
    ],
)
def test_published_names_come_out_as_they_went_in(tmp_path, fixture, layout):
    stored = fixture(tmp_path / "published")
    write_head(read(tmp_path / "published"), tmp_path / "again", layout)
    (file,) = (tmp_path / "again").glob("*.safetensors")
    written = load_file(file)
    assert written.keys() == stored.keys()
    assert all(torch.equal(written[name], stored[name]) for name in stored)


@pytest.mark.parametrize(
    ("taps", "ids"),
    [
        (ENTERING, [2, 4, 5]),
        (LEAVING, [1, 3, 4]),
        # leaving 2 enters 3; a first id of 2 would be read as entering, so it is written as 3
        ((Tap(2, "leaving"), Tap(3, "leaving"), Tap(4, "leaving")), [3, 4, 5]),
    ],
)
def test_layer_ids_are_written_as_they_are_read(tmp_path, taps, ids):
    write_head(eagle(3, taps=taps), tmp_path, "specforge")
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] == ids


def test_speculators_ids_enter_layers(tmp_path):
    write_head(eagle(3, taps=LEAVING), tmp_path, "speculators")
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["eagle_aux_hidden_state_layer_ids"] == [2, 4, 5]


@pytest.mark.parametrize(
    ("head", "layout", "message"),
    [
        (eagle(3, recycle="post_norm"), "specforge", "normed hidden state back"),
        (eagle(1, recycle="post_norm"), "official", "normed hidden state back"),
        (eagle(1, recycle="post_norm"), "speculators", "normed hidden state back"),
        (eagle(3, taps=(Tap(1, "entering"),)), "official", "enters layer 1"),
        (eagle(1, layers=2), "speculators", "one layer"),
        (medusa("target"), "v1", "needs projections"),
        (medusa("own"), "v2", "no projections"),
        (medusa("target"), "vllm", "needs projections"),
        (mtp("nextn"), "mimo", "means hidden first"),
        (mtp("nextn"), "nextN", "no layout 'nextN'"),
    ],
)
def test_layouts_that_cannot_say_it_refuse(tmp_path, head, layout, message):
    with pytest.raises(UsageError, match=message):
        write_head(head, tmp_path / "head", layout)
    assert not (tmp_path / "head").exists()


def test_ends_have_no_place_where_the_layout_shares_them(tmp_path):
    head = mtp("mimo", "mimo")
    head = replace(head, tensors={**head.tensors, "head.weight": noise(128, 32)})
    with pytest.raises(UsageError, match=r"no place for head\.weight"):
        write_head(head, tmp_path / "head", "mimo")


def test_a_folder_in_use_is_refused(tmp_path):
    write_head(medusa("target"), tmp_path, "v2")
    with pytest.raises(UsageError, match="already holds a checkpoint"):
        write_head(medusa("target"), tmp_path, "v2")


def test_unknown_families():
    with pytest.raises(UsageError, match="unknown family of heads 'eagle4'"):
        layouts_of("eagle4")
