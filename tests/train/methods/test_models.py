"""Whole models over packed conversations: copies, adapters, forwards against transformers' own."""

from __future__ import annotations

import pytest
import torch

from specbench.errors import UsageError
from specbench.models.linear import pack_linears
from specbench.train.methods.low_rank import LowRank, adapt, merged_state
from specbench.train.methods.models import logits_of, own_weights, shared_copy, states_of
from tests.models.families import WINDOW, build
from tests.models.heads.tiny_heads import VOCABULARY, loaded, tiny_model
from tests.train.methods.captured import captured, lines_of, run

pytestmark = pytest.mark.usefixtures("one_thread")

LENGTHS = (6, 4)


def joined(lines):
    return torch.tensor([token for line in lines for token in line])


@pytest.mark.parametrize("family", ["llama", "deepseek", "mimo"])
def test_packed_conversations_do_not_see_each_other(family):
    model = tiny_model(family)
    lines = lines_of(LENGTHS, VOCABULARY)
    wanted = [run(model, line) for line in lines]
    copied = shared_copy(model)
    states = states_of(copied, joined(lines), LENGTHS)
    torch.testing.assert_close(
        states, torch.cat([one[1][-1] for one in wanted]), atol=1e-4, rtol=1e-4
    )
    rows = torch.tensor([0, 5, 6, 9])
    logits = logits_of(copied, joined(lines), LENGTHS, rows)
    torch.testing.assert_close(
        logits, torch.cat([one[0] for one in wanted])[rows], atol=1e-3, rtol=1e-4
    )


def test_sliding_windows_are_followed_only_where_they_reach_over_everything():
    model = build("gemma3")
    short, long = lines_of((WINDOW, 3), 64), lines_of((WINDOW + 1,), 64)
    wanted = torch.cat([run(model, line)[1][-1] for line in short])
    copied = shared_copy(model)
    found = states_of(copied, joined(short), (WINDOW, 3))
    torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)
    with pytest.raises(UsageError, match=r"lower data\.max_prompt_tokens"):
        states_of(copied, joined(long), (WINDOW + 1,))


def test_a_copy_shares_weights_and_leaves_the_models_attention_alone():
    model = tiny_model("llama")
    before = model.config._attn_implementation
    copied = shared_copy(model)
    mine, theirs = dict(copied.named_parameters()), dict(model.named_parameters())
    assert mine.keys() == theirs.keys()
    assert all(mine[name] is theirs[name] for name in mine)
    assert copied.config is not model.config
    assert model.config._attn_implementation == before
    copied.model.layers[0].self_attn.q_proj = torch.nn.Identity()
    assert type(model.model.layers[0].self_attn.q_proj) is torch.nn.Linear


@pytest.mark.parametrize("tied", [True, False])
def test_own_weights_are_copies_and_stay_tied(tied):
    model = tiny_model("llama", tie_word_embeddings=tied).to(torch.bfloat16)
    copied = shared_copy(model)
    own_weights(copied)
    mine, theirs = dict(copied.named_parameters()), dict(model.named_parameters())
    assert mine.keys() == theirs.keys()
    for name, parameter in mine.items():
        assert parameter.dtype == torch.float32
        assert parameter.requires_grad
        assert torch.equal(parameter.bfloat16(), theirs[name])
        assert parameter.data_ptr() != theirs[name].data_ptr()
    assert (copied.lm_head.weight is copied.model.embed_tokens.weight) is tied


def test_an_adapter_by_definition():
    chance = torch.Generator().manual_seed(1)
    base = torch.nn.Linear(5, 7)
    layer = LowRank(base, 2, chance)
    rows = torch.randn(3, 5, generator=chance)
    assert torch.equal(layer(rows), base(rows))
    assert layer.down.abs().max() <= 5**-0.5
    with torch.no_grad():
        layer.up.copy_(torch.randn(7, 2, generator=chance))
    delta = torch.zeros(7, 5)
    for i in range(7):
        for j in range(5):
            delta[i, j] = sum(layer.up[i, r] * layer.down[r, j] for r in range(2))
    torch.testing.assert_close(layer(rows), base(rows) + rows @ delta.T)
    torch.testing.assert_close(layer.merged(), base.weight + delta)


def test_adapters_at_zero_change_nothing_and_merged_ones_change_as_much():
    target = loaded(tiny_model("mimo"))
    lines = lines_of(LENGTHS, VOCABULARY)
    batch = captured(target, lines, (3, 2))
    tuned = shared_copy(target.model)
    adapt(tuned, 3, seed=1)
    found = states_of(tuned, batch.ids, LENGTHS)
    (wanted,) = batch.states.values()
    torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)
    names = [name for name, _ in tuned.named_parameters() if name.endswith((".down", ".up"))]
    # Four linears of the attention and three of the MLP, in each of three layers.
    assert len(names) == 2 * 7 * 3
    chance = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for name, parameter in tuned.named_parameters():
            if name.endswith(".up"):
                parameter.copy_(0.05 * torch.randn(parameter.shape, generator=chance))
    adapted = states_of(tuned, batch.ids, LENGTHS)
    assert (adapted - wanted).abs().max().item() > 0.1
    merged = tiny_model("mimo", seed=9)
    merged.load_state_dict(merged_state(tuned))
    joint = torch.cat([run(merged, line)[1][-1] for line in lines])
    torch.testing.assert_close(adapted, joint, atol=1e-3, rtol=1e-3)


def test_packed_linears_cannot_be_adapted():
    model = tiny_model("llama")
    pack_linears(model)
    with pytest.raises(UsageError, match="no plain linear layers"):
        adapt(model, 2, seed=0)
