"""What a training starts from, and how it is written."""

import pytest
import torch

from specbench.errors import UsageError
from specbench.models.heads.configs import TargetShape
from specbench.models.heads.read import read_head
from specbench.models.heads.write import write_head
from specbench.models.locate import locate
from specbench.train.job.heads import starting_head, writer
from specbench.train.job.methods import load_target, method_of, start_of
from specbench.train.job.optimising import longest, optimising

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def target(bench):
    return load_target(bench.recipe("mtp"))


@pytest.fixture
def written(bench, target, tmp_path):
    """A starting head of a recipe, written and read again."""

    def write(recipe, ids=None, dtype="auto"):
        head = starting_head(recipe, target, ids)
        writer(recipe, head, target)(head, tmp_path / recipe.method)
        return head, read_head(
            locate(str(tmp_path / recipe.method), needs_tokenizer=False),
            families=(recipe.family,),
            target=TargetShape.of(target.config),
            dtype=dtype,
        )

    return write


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_trained_in_float32_and_written_in_the_recipes_type(bench, written, dtype):
    head, found = written(bench.recipe("eagle3", head={"dtype": dtype}))
    assert head.dtype == torch.float32
    assert found.dtype == getattr(torch, dtype)
    for name, tensor in head.tensors.items():
        assert torch.equal(found.tensors[name], tensor.to(getattr(torch, dtype)))


@pytest.mark.parametrize(
    ("method", "keys", "norms"),
    [
        ("eagle1", {}, set()),
        ("eagle1", {"input_norm": True}, {"layers.0.input_layernorm.weight"}),
        (
            "eagle1",
            {"input_norm": True, "final_norm": True},
            {"layers.0.input_layernorm.weight", "norm.weight"},
        ),
        ("eagle3", {"norm_before_fc": True}, {"input_norm.weight"}),
        ("eagle3", {"fc_norm": True}, {f"fc_norm.{i}.weight" for i in range(3)}),
    ],
)
def test_norms_that_a_recipe_asks_for(bench, written, target, method, keys, norms):
    plain = set(
        starting_head(bench.recipe(method), load_target(bench.recipe(method)), None).tensors
    )
    head, found = written(bench.recipe(method, head=keys))
    assert set(head.tensors) - plain == norms
    assert set(found.tensors) == set(head.tensors)
    assert all(bool((head.tensors[name] == 1).all()) for name in norms)
    switches = {name: getattr(found.config, name) for name in keys}
    assert switches == keys


def test_blocks_and_heads_of_medusa(bench, written, target):
    _, found = written(bench.recipe("medusa1", head={"heads": 3, "blocks": 2}))
    assert (found.config.heads, found.config.blocks) == (3, 2)
    assert found.config.projection == "target"
    # A new head passes on what it reads: its logits are the target's own.
    state = torch.randn(5, 32)
    recipe = bench.recipe("medusa1", head={"heads": 3, "blocks": 2})
    start = start_of(recipe, target, None)
    logits = method_of(recipe, start, 1).module.logits(state, 3)
    wanted = target.model.get_output_embeddings()(state)
    for one in range(3):
        torch.testing.assert_close(logits[:, one], wanted)


@pytest.mark.parametrize(
    ("method", "keys", "place"),
    [
        ("mtp", {}, "head.weight"),
        ("eagle1", {}, "lm_head.weight"),
        ("eagle3", {}, "lm_head.weight"),
        ("medusa1", {}, "projection.weight"),
        ("medusa1", {"layout": "vllm"}, "projection.weight"),
        ("medusa1", {"layout": "v1"}, "heads.0.projection.weight"),
    ],
)
def test_in_full_it_brings_the_targets_projection(bench, written, target, method, keys, place):
    ids = list(range(0, 260, 2))
    head, found = written(bench.recipe(method, head={"full": True, **keys}), ids)
    assert place not in head.tensors
    rows = target.model.get_output_embeddings().weight[ids].to(torch.bfloat16)
    assert torch.equal(found.tensors[place], rows)
    assert found.tensors["target_ids"].tolist() == ids


def test_without_it_the_projection_is_the_targets(bench, written):
    for method in ("mtp", "eagle1", "eagle3", "medusa1"):
        head, found = written(bench.recipe(method), [3, 9, 40])
        assert set(found.tensors) == set(head.tensors)
        assert not any("lm_head" in name or "projection" in name for name in found.tensors)


def test_a_layout_that_cannot_say_it_names_the_key(bench, target, tmp_path):
    recipe = bench.recipe("mtp", head={"full": True, "layout": "mimo"})
    head = starting_head(recipe, target, None)
    with pytest.raises(UsageError, match=r"head\.layout = 'mimo'"):
        writer(recipe, head, target)(head, tmp_path / "head")


def test_going_on_from_a_published_head(bench, target, tmp_path):
    first = bench.recipe("eagle3", head={"layout": "specforge", "dtype": "float32"})
    head = starting_head(first, target, [4, 5, 6])
    head.tensors["fc.weight"] += 1
    write_head(head, tmp_path / "published", "specforge")
    recipe = bench.recipe("eagle3", head={"start": str(tmp_path / "published")})
    start = start_of(recipe, target, None)
    assert torch.equal(start.head.tensors["fc.weight"], head.tensors["fc.weight"])
    assert start.draft_ids == [4, 5, 6]
    # It keeps its layout.
    method_of(recipe, start, 1).export(tmp_path / "again")
    found = read_head(
        locate(str(tmp_path / "again"), needs_tokenizer=False),
        families=("eagle3",),
        target=TargetShape.of(target.config),
        dtype="auto",
    )
    assert found.layout == "specforge"
    assert (start.longest, longest(recipe, start)) == (None, 7)
    with pytest.raises(UsageError):
        start_of(bench.recipe("mtp", head={"start": str(tmp_path / "published")}), target, None)


def test_going_on_from_a_draft_model(bench, target, tmp_path):
    first = bench.recipe("distill", head={"layers": 3, "dtype": "float32"})
    start = start_of(first, target, None)
    start.student.model.norm.weight.data += 0.5
    method_of(first, start, 1).export(tmp_path / "draft")
    recipe = bench.recipe("distill", head={"start": str(tmp_path / "draft")})
    again = start_of(recipe, target, None)
    assert again.student.config.num_hidden_layers == 3
    assert torch.equal(again.student.model.norm.weight, start.student.model.norm.weight)
    assert all(p.dtype == torch.float32 for p in again.student.parameters())
    method_of(recipe, again, 1)
    with pytest.raises(UsageError, match=r"head\.layers = 9"):
        start_of(bench.recipe("distill", head={"layers": 9}), target, None)


def test_keys_of_the_loop(bench, target):
    recipe = bench.recipe(
        "eagle1", train={"precision": "bfloat16", "betas": [0.8, 0.9], "patience": 4}
    )
    how = optimising(recipe)
    assert (how.autocast, how.betas, how.patience) == (torch.bfloat16, (0.8, 0.9), 4)
    assert (how.clip_norm, how.clip_value) == (0.0, 0.5)
    assert optimising(bench.recipe("eagle1")).autocast is None
    # A target in few bits does not change what the head is trained in.
    few = bench.recipe("eagle1", target={"dtype": "bfloat16"}, train={"precision": "bfloat16"})
    assert optimising(few).autocast == torch.bfloat16
    heads = bench.recipe("blockwise", head={"heads": 2})
    assert longest(heads, start_of(heads, target, None)) == 2
    assert longest(recipe, start_of(recipe, target, None)) == 3
    asked = bench.recipe("eagle1", validate={"k": 5})
    assert longest(asked, start_of(asked, target, None)) == 5
