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
