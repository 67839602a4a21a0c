"""Maps of smaller draft vocabularies in files of every family, with and without a projection."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from specbench.errors import PrerequisiteError, UsageError
from specbench.models.heads.standalone import standalone
from specbench.models.heads.write import LAYOUTS, write_head
from tests.models.heads import fixtures as made
from tests.models.heads import mtp_fixtures
from tests.models.heads.fixtures import DRAFTED, HIDDEN, TARGET, USED_IDS, VOCABULARY, noise
from tests.models.heads.made_heads import eagle, medusa, mtp, with_map
from tests.models.heads.reading import read

OUTPUT = noise(VOCABULARY, HIDDEN, seed=9)
"""The target's output projection."""

GRID = [(family, layout) for family, layouts in LAYOUTS.items() for layout in layouts]
NO_PLACE = {("medusa", "v2"), ("mtp", "mimo"), ("mtp", "speculators")}
"""Layouts without a place for a projection."""
NEED_ONE = {("medusa", "v1"), ("medusa", "vllm")}
"""Layouts of heads that always have one."""
PROJECTION = {
    "eagle1": "lm_head.weight",
    "eagle3": "lm_head.weight",
    "mtp": "shared_head.head.weight",
    "v1": "1.1.weight",
    "vllm": "lm_head.weight",
}
"""How the names of output projections end in files."""


def target(output=OUTPUT, bias=False):
    """A target of which only the output projection is known."""
    linear = nn.Linear(output.shape[1], output.shape[0], bias=bias).requires_grad_(False)
    linear.weight.copy_(output)
    return SimpleNamespace(model=SimpleNamespace(get_output_embeddings=lambda: linear))


def lending(family, layout):
    """A head that projects by the target's rows, and the target that it reads."""
    if family == "mtp":
        return mtp(layout, "mimo" if layout == "mimo" else "llama")
    return medusa("target") if family == "medusa" else eagle(int(family[-1]))


def same(found, head):
    assert found.config == head.config
    assert found.tensors.keys() == head.tensors.keys()
    assert all(torch.equal(found.tensors[name], head.tensors[name]) for name in head.tensors)


@pytest.mark.parametrize("full", [False, True], ids=["lent", "full"])
@pytest.mark.parametrize("mapped", [False, True], ids=["all", "some"])
@pytest.mark.parametrize(("family", "layout"), GRID)
def test_what_is_written_reads_as_the_same_head(tmp_path, family, layout, mapped, full):
    head = lending(family, layout)
    head = with_map(head) if mapped else head
    head = standalone(head, target()) if full else head
    if (family, layout) in (NO_PLACE if full else NEED_ONE):
        with pytest.raises(UsageError, match=r"no place for head|no projections|needs projections"):
            write_head(head, tmp_path / "head", layout)
        return
    write_head(head, tmp_path / "head", layout)
    found = read(tmp_path / "head", target=getattr(head.config, "target", TARGET), dtype="auto")
    rows = OUTPUT[USED_IDS] if mapped else OUTPUT
    if (family, layout) == ("medusa", "v1"):
        # It has no place for one projection of all heads: each has the same one.
        tensors = {n: t for n, t in head.tensors.items() if n != "projection.weight"}
        each = {f"heads.{i}.projection.weight": rows for i in range(2)}
        head = replace(head, config=replace(head.config, projection="own"), tensors=tensors | each)
    same(found, head)
    (file,) = (tmp_path / "head").glob("*.safetensors")
    stored = load_file(file)
    name = PROJECTION.get(layout, PROJECTION.get(family))
    projections = [t for n, t in stored.items() if name is not None and n.endswith(name)]
    assert len(projections) == full
    assert all(torch.equal(projection, rows) for projection in projections)
    expected = {"token_map"} if layout == "vllm" else {"d2t", "t2d"}
    assert stored.keys() & {"token_map", "d2t", "t2d"} == (expected if mapped else set())
    if mapped and layout != "vllm":
        assert (stored["d2t"] + torch.arange(DRAFTED)).tolist() == USED_IDS
        assert stored["t2d"].nonzero().flatten().tolist() == USED_IDS


def test_a_head_with_a_projection_is_whole_already():
    for head in (eagle(3, draft_vocabulary=DRAFTED), medusa("own"), medusa("one")):
        assert standalone(head, target()) is head


def test_the_projection_has_the_heads_type():
    head = eagle(1)
    tensors = {name: tensor.bfloat16() for name, tensor in head.tensors.items()}
    whole = standalone(replace(head, tensors=tensors), target())
    assert torch.equal(whole.tensors["lm_head.weight"], OUTPUT.bfloat16())


def test_another_targets_projection_is_refused():
    with pytest.raises(PrerequisiteError, match=r"\[128, 32\] is missing"):
        standalone(eagle(1), target(noise(VOCABULARY + 1, HIDDEN)))
    with pytest.raises(PrerequisiteError, match="has a bias"):
        standalone(medusa("target"), target(bias=True))


@pytest.mark.parametrize(
    ("layout", "head"),
    [("v2", medusa("target")), ("v1", medusa("own")), ("official", eagle(1))],
)
def test_offsets_need_rising_ids(tmp_path, layout, head):
    falling = {"target_ids": torch.tensor([5, 9, 7])}
    head = replace(head, tensors={**head.tensors, **falling})
    with pytest.raises(UsageError, match="need rising token ids"):
        write_head(head, tmp_path / "head", layout)


def reduced(folder, fixture, drop=(), **more):
    """A fixture's files with the map of ``USED_IDS`` and more tensors, and without some."""
    tensors = fixture(folder) | made.offsets() | more
    kept = {name: tensor for name, tensor in tensors.items() if name not in drop}
    (file,) = [*folder.glob("*.safetensors"), *folder.glob("*.bin")]
    made.write(folder, json.loads((folder / "config.json").read_text()), kept, file.name)


LENDING = {
    "eagle1": (made.eagle1, ()),
    "eagle1 of speculators": (made.eagle1_speculators, ()),
    "eagle3": (made.eagle3, ("lm_head.weight",)),
    "eagle3 of speculators": (made.eagle3_speculators, ("lm_head.weight",)),
    "medusa": (made.medusa_v2, ()),
    "mtp of speculators": (mtp_fixtures.speculators, ()),
}


@pytest.mark.parametrize("name", LENDING)
def test_a_map_without_a_projection(tmp_path, name):
    fixture, drop = LENDING[name]
    reduced(tmp_path, fixture, drop)
    head = read(tmp_path)
    assert head.tensors["target_ids"].tolist() == USED_IDS
    assert head.config.draft_vocabulary == DRAFTED
    assert not [n for n in head.tensors if "head.weight" in n or "projection" in n]
    assert not any("d2t" in oddity for oddity in head.oddities)


@pytest.mark.parametrize("name", LENDING)
def test_a_map_is_offsets_without_a_mask_too(tmp_path, name):
    fixture, drop = LENDING[name]
    reduced(tmp_path, fixture, (*drop, "t2d"), d2t=torch.tensor([0, 1, 1, 3]))
    assert read(tmp_path).tensors["target_ids"].tolist() == [0, 2, 3, 6]


def test_vllms_map_without_a_projection(tmp_path):
    stored = made.medusa_vllm(tmp_path)
    blocks = {name: tensor for name, tensor in stored.items() if "lm_heads" not in name}
    config = {"model_type": "medusa", "original_lm_head": True, "vocab_size": VOCABULARY}
    made.write(tmp_path, config, blocks, "model.safetensors")
    head = read(tmp_path)
    assert (head.config.projection, head.config.draft_vocabulary) == ("target", DRAFTED)
    assert head.tensors["target_ids"].tolist() == USED_IDS


def test_medusas_projections_of_some_tokens(tmp_path):
    heads = made.medusa_heads(heads=2, projections=False)
    few = {f"{i}.1.weight": noise(DRAFTED, HIDDEN, seed=i) for i in range(2)}
    config = {"medusa_num_heads": 2, "vocab_size": VOCABULARY}
    made.write(tmp_path, config, heads | few | made.offsets(), "medusa_lm_head.safetensors")
    head = read(tmp_path)
    assert (head.layout, head.config.projection, head.config.draft_vocabulary) == ("v1", "own", 48)
    assert torch.equal(head.tensors["heads.1.projection.weight"], few["1.1.weight"])


def test_medusas_whole_projections_keep_the_rows_of_the_map(tmp_path):
    stored = made.medusa_v1(tmp_path, file="medusa_lm_head.safetensors")
    made.write(tmp_path, {}, stored | made.offsets(), "medusa_lm_head.safetensors")
    head = read(tmp_path)
    assert head.config.draft_vocabulary == DRAFTED
    wanted = stored["3.1.weight"][USED_IDS]
    assert torch.equal(head.tensors["heads.3.projection.weight"], wanted)


def test_a_layers_own_projection_of_some_tokens(tmp_path):
    p = f"model.layers.{made.LAYERS}."
    stored = mtp_fixtures.nextn(tmp_path / "model", copies="none")
    few = {f"{p}shared_head.head.weight": noise(DRAFTED, HIDDEN)}
    config = made.llama_config(model_type="deepseek_v3", num_hidden_layers=made.LAYERS)
    made.write(tmp_path / "head", config, stored | few | made.offsets(), "model.safetensors")
    head = read(tmp_path / "head")
    assert head.config.draft_vocabulary == DRAFTED
    assert torch.equal(head.tensors["head.weight"], few[f"{p}shared_head.head.weight"])


def test_a_copy_of_the_targets_rows_is_left_out(tmp_path):
    p = f"model.layers.{made.LAYERS}."
    stored = mtp_fixtures.nextn(tmp_path / "model", copies="none")
    model = made.small_model()
    config = made.llama_config(model_type="deepseek_v3", num_hidden_layers=made.LAYERS)
    for folder, moved in (("equal", 0.0), ("other", 1.0)):
        rows = {f"{p}shared_head.head.weight": model["lm_head.weight"][USED_IDS] + moved}
        tensors = model | stored | rows | made.offsets()
        made.write(tmp_path / folder, config, tensors, "model.safetensors")
    assert "head.weight" not in read(tmp_path / "equal").tensors
    assert "head.weight" in read(tmp_path / "other").tensors


def test_an_identity_over_the_whole_vocabulary_is_none(tmp_path):
    every = {"d2t": torch.zeros(VOCABULARY, dtype=torch.int64)}
    every["t2d"] = torch.ones(VOCABULARY, dtype=torch.bool)
    for i, fixture in enumerate((made.eagle1, made.medusa_v2, mtp_fixtures.speculators)):
        reduced(tmp_path / str(i), fixture, **every)
        head = read(tmp_path / str(i))
        assert "target_ids" not in head.tensors
        assert head.config.draft_vocabulary == VOCABULARY


@pytest.mark.parametrize(
    ("fixture", "more", "message"),
    [
        (made.medusa_v2, {"d2t": torch.zeros(2, 2)}, r"d2t has shape \[2, 2\], expected one entry"),
        (made.eagle3, {"t2d": torch.ones(7)}, "t2d has 7 tokens, the target 128"),
        (made.medusa_v2, {"t2d": torch.ones(7)}, "t2d has 7 tokens, the target 128"),
        (mtp_fixtures.speculators, {"t2d": torch.ones(7)}, "t2d has 7 tokens, the target 128"),
        (mtp_fixtures.speculators, {"d2t": torch.arange(3)}, "contradicts the mask t2d"),
        (made.medusa_v2, {"d2t": torch.tensor([3, 1, 1])}, "increasing tokens"),
        (made.medusa_vllm, {}, "two maps of draft tokens: token_map and d2t"),
    ],
)
def test_bad_maps(tmp_path, fixture, more, message):
    reduced(tmp_path, fixture, **more)
    with pytest.raises(PrerequisiteError, match=message):
        read(tmp_path)


@pytest.mark.parametrize("fixture", [made.eagle1, made.medusa_v2, mtp_fixtures.speculators])
def test_a_mask_without_a_map_is_refused(tmp_path, fixture):
    reduced(tmp_path, fixture, ("d2t",))
    with pytest.raises(PrerequisiteError, match="mask t2d, but no map d2t"):
        read(tmp_path)
