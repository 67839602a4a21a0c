"""Medusa's network against its formula; tensors that do not fit are named."""

from dataclasses import replace

import pytest
import torch

from specbench.errors import PrerequisiteError
from specbench.models.heads.medusa import build_parallel_heads
from tests.drafters.build_contexts import loaded_of
from tests.models.families import build
from tests.models.heads.medusa_heads import HIDDEN, VOCABULARY, checkpoint, defined

pytestmark = pytest.mark.usefixtures("one_thread")

SOME = [3, 0, 17, 40, 41, 63, 5]


def built(made, **options):
    options = {"vocabulary": VOCABULARY, **options}
    return build_parallel_heads(made, loaded_of(build("llama")), **options)


def states(count=4, seed=7):
    return torch.randn(count, HIDDEN, generator=torch.Generator().manual_seed(seed))


def close(found, made, hidden, lent=None):
    for line, one in zip(found, hidden, strict=True):
        wanted = defined(made, one, lent)[: len(line)]
        torch.testing.assert_close(line.double(), wanted, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("prepack", [False, True])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("blocks", [1, 2])
@pytest.mark.parametrize("target_ids", [None, SOME])
@pytest.mark.parametrize("projection", ["own", "one"])
def test_logits_follow_the_formula(projection, target_ids, blocks, bias, prepack):
    made = checkpoint(projection, blocks=blocks, bias=bias, target_ids=target_ids)
    hidden = states()
    close(built(made, prepack=prepack)(hidden, 3), made, hidden)


@pytest.mark.parametrize("blocks", [1, 2])
def test_the_targets_projection_is_lent(blocks):
    made = checkpoint("target", blocks=blocks)
    hidden = states()
    heads = built(made)
    close(heads(hidden, 3), made, hidden, build("llama").lm_head.weight)
    # It is neither counted nor packed nor moved with the heads: 3 heads of H x H and H floats.
    assert heads.weight_bytes == 4 * 3 * blocks * (HIDDEN * HIDDEN + HIDDEN)
    assert not [name for name in heads.state_dict() if "lm_head" in name or "_lent" in name]


@pytest.mark.parametrize("prepack", [False, True])
def test_rows_of_the_targets_projection_are_taken(prepack):
    made = checkpoint("target", target_ids=SOME)
    hidden = states()
    heads = built(made, prepack=prepack)
    close(heads(hidden, 3), made, hidden, build("llama").lm_head.weight[SOME])
    # The copy takes memory: 3 heads of H x H and H floats, ids of 8 bytes, rows of H floats.
    size = 4 * 3 * (HIDDEN * HIDDEN + HIDDEN) + len(SOME) * (8 + 4 * HIDDEN)
    assert heads.weight_bytes == size


def test_all_rows_in_any_order_are_the_targets_own():
    hidden = states()
    plain = built(checkpoint("target"))(hidden, 3)
    sorted_ids = built(checkpoint("target", target_ids=list(range(VOCABULARY))))
    assert torch.equal(sorted_ids(hidden, 3), plain)
    chance = torch.Generator().manual_seed(1)
    shuffled = torch.randperm(VOCABULARY, generator=chance).tolist()
    torch.testing.assert_close(built(checkpoint("target", target_ids=shuffled))(hidden, 3), plain)


@pytest.mark.parametrize("projection", ["own", "one", "target"])
def test_gradients_reach_the_blocks(projection):
    made = checkpoint(projection, target_ids=SOME)
    heads = built(made).requires_grad_(True)
    hidden = states(1)
    logits = heads.logits(hidden, 3)
    assert logits.shape == (1, 3, len(SOME))
    logits[0, 1, 2].backward()
    rows = {
        "own": made.tensors.get("heads.1.projection.weight"),
        "one": made.tensors.get("projection.weight"),
        "target": build("llama").lm_head.weight[SOME],
    }[projection]
    y = heads.heads[1].blocks[0](hidden[0]).detach()
    gate = torch.sigmoid(y)
    # d silu(y) / dy = s + y s (1 - s); dy / db = 1.
    wanted = rows[2] * (gate + y * gate * (1 - gate))
    torch.testing.assert_close(heads.heads[1].blocks[0].bias.grad, wanted)
    assert {name for name, _ in heads.named_parameters()} <= made.tensors.keys()


def test_a_map_that_leads_out_of_the_target_is_refused():
    made = checkpoint("target", target_ids=[3, VOCABULARY])
    with pytest.raises(PrerequisiteError, match="ids 3 to 64, but the target has 64"):
        built(made)


def test_heads_that_are_not_wanted_do_not_run():
    made = checkpoint()
    hidden = states()
    found = built(made)(hidden, 2)
    assert found.shape == (4, 2, VOCABULARY)
    close(found, made, hidden)


def test_untrained_blocks_repeat_the_targets_own_row():
    made = checkpoint("target")
    zero = {name: torch.zeros_like(tensor) for name, tensor in made.tensors.items()}
    heads = built(replace(made, tensors=zero))
    hidden = states()
    own = hidden @ build("llama").lm_head.weight.T
    torch.testing.assert_close(heads(hidden, 3), own[:, None].expand(-1, 3, -1))


@pytest.mark.parametrize("target_ids", [None, SOME])
def test_rows_without_a_token_cannot_be_drafted(target_ids):
    padding = torch.arange(VOCABULARY) >= 40
    made = checkpoint(target_ids=target_ids)
    found = built(made, padding=padding)(states(), 3)
    assert (found[..., padding] == -torch.inf).all()
    known = torch.tensor(target_ids or range(VOCABULARY))
    assert found[..., known[known < 40]].isfinite().all()


def test_other_types_are_computed_in():
    made = checkpoint("target")
    narrow = {name: tensor.bfloat16() for name, tensor in made.tensors.items()}
    heads = built(replace(made, tensors=narrow))
    assert heads.dtype == torch.bfloat16
    hidden = states()
    wanted = torch.stack([defined(made, one, build("llama").lm_head.weight) for one in hidden])
    torch.testing.assert_close(heads(hidden, 3).double(), wanted, atol=0.3, rtol=0.05)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t.pop("heads.1.blocks.0.weight"), "heads.1.blocks.0.weight is missing"),
        (lambda t: t.update({"heads.3.blocks.0.weight": torch.zeros(2)}), "has no place"),
        (
            lambda t: t.update({"heads.0.projection.weight": torch.zeros(8, 8)}),
            r"heads.0.projection.weight is \[8, 8\], wanted \[64, 32\]",
        ),
    ],
)
def test_tensors_that_do_not_fit_are_named(change, said):
    made = checkpoint()
    tensors = dict(made.tensors)
    change(tensors)
    with pytest.raises(PrerequisiteError, match=said):
        built(replace(made, tensors=tensors))


def test_a_target_that_cannot_lend_its_projection_is_refused():
    target = loaded_of(build("llama", hidden_size=48))
    with pytest.raises(PrerequisiteError, match=r"hidden size 32; .* reads 48 columns"):
        build_parallel_heads(checkpoint("target"), target, vocabulary=VOCABULARY)
