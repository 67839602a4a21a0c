"""EAGLE-3 checkpoints: official, SpecForge, vLLM's names, speculators; maps and layer ids."""

from __future__ import annotations

import pytest
import torch

from specbench.decoding.protocols import Tap
from specbench.errors import PrerequisiteError, UsageError
from tests.models.heads import fixtures as made
from tests.models.heads.reading import other_target, read

DEFAULT = (Tap(2, "entering"), Tap(4, "entering"), Tap(5, "entering"))
"""Of a target with 8 layers: 2, 8 // 2, 8 - 3."""

BOTH = {"ids": [0, 2, 5, 7], "offsets": [0, 3, 7, 10]}
"""Tokens that the stored values 0, 2, 5, 7 are in either reading."""


def test_official(tmp_path):
    stored = made.eagle3(tmp_path)
    head = read(tmp_path)
    assert (head.family, head.layout) == ("eagle3", "official")
    config = head.config
    assert (config.version, config.hidden, config.target_hidden, config.layers) == (3, 32, 32, 1)
    assert (config.vocabulary, config.draft_vocabulary, config.head_size) == (128, 48, 16)
    assert config.rope_theta == 10000.0
    assert config.recycle == "pre_norm"
    assert config.final_norm
    assert not any((config.norm_before_residual, config.norm_before_fc, config.fc_norm))
    assert config.taps == DEFAULT
    assert head.tensors["target_ids"].tolist() == made.USED_IDS
    assert not {"d2t", "t2d", "embed_tokens.weight"} & head.tensors.keys()
    name = "mlp.up_proj.weight"
    assert torch.equal(head.tensors[f"layers.0.{name}"], stored[f"midlayer.{name}"])
    assert torch.equal(head.tensors["lm_head.weight"], stored["lm_head.weight"])


def test_both_kinds_of_file_hold_the_same_head(tmp_path):
    made.eagle3(tmp_path / "safe")
    made.eagle3(tmp_path / "pickled", file="pytorch_model.bin")
    safe, pickled = read(tmp_path / "safe"), read(tmp_path / "pickled")
    assert safe.config == pickled.config
    assert safe.tensors.keys() == pickled.tensors.keys()
    assert all(torch.equal(safe.tensors[n], pickled.tensors[n]) for n in safe.tensors)


def test_specforge_counts_streams_that_leave_layers(tmp_path):
    made.eagle3_specforge(tmp_path)
    head = read(tmp_path)
    assert head.layout == "specforge"
    assert head.config.taps == (Tap(1, "leaving"), Tap(3, "leaving"), Tap(4, "leaving"))
    assert any("taken as leaving" in oddity for oddity in head.oddities)


def test_ids_that_do_not_start_with_1_enter_layers(tmp_path):
    made.eagle3_specforge(tmp_path, [2, 4, 5])
    head = read(tmp_path)
    assert head.config.taps == DEFAULT
    assert any("taken as entering" in oddity for oddity in head.oddities)


def test_speculators_counts_streams_that_enter_layers(tmp_path):
    made.eagle3_speculators(tmp_path, [2, 4, 8])
    head = read(tmp_path)
    assert head.layout == "speculators"
    # what enters layer 8 of 8 is what leaves layer 7
    assert head.config.taps == (Tap(2, "entering"), Tap(4, "entering"), Tap(7, "leaving"))
    assert not any("side" in oddity for oddity in head.oddities)
    assert "embed_tokens.weight" in head.tensors


def test_specforges_ids_in_a_speculators_file_are_pointed_out(tmp_path):
    made.eagle3_speculators(tmp_path, [1, 3, 4])
    head = read(tmp_path)
    assert head.config.taps[0] == Tap(1, "entering")
    assert any("as SpecForge counts" in oddity for oddity in head.oddities)


def test_layers_that_the_target_lacks_are_refused(tmp_path):
    made.eagle3_speculators(tmp_path, [2, 4, 9])
    with pytest.raises(PrerequisiteError, match="entering layer 9, the target has layers 0 to 7"):
        read(tmp_path)


def test_other_numbers_of_layers(tmp_path):
    tensors = made.eagle3_tensors() | {"fc.weight": made.noise(32, 2 * 32)}
    config = made.llama_config(eagle_aux_hidden_state_layer_ids=[3, 6])
    made.write(tmp_path, config, tensors, "model.safetensors")
    head = read(tmp_path)
    assert head.config.taps == (Tap(3, "entering"), Tap(6, "entering"))
    assert head.config.target_hidden == 32


def test_a_width_that_says_nothing_is_refused(tmp_path):
    tensors = made.eagle3_tensors() | {"fc.weight": made.noise(32, 100)}
    made.write(tmp_path, made.llama_config(), tensors, "model.safetensors")
    with pytest.raises(PrerequisiteError, match="fc reads 100 columns of 3 layers"):
        read(tmp_path)


def test_norms_of_the_joined_features(tmp_path):
    made.eagle3_speculators(tmp_path / "one", norm_before_fc=True, norm_before_residual=True)
    made.eagle3_speculators(tmp_path / "each", fc_norm=True)
    one, each = read(tmp_path / "one"), read(tmp_path / "each")
    assert one.config.norm_before_fc
    assert one.config.norm_before_residual
    assert "input_norm.weight" in one.tensors
    assert each.config.fc_norm
    assert {f"fc_norm.{i}.weight" for i in range(3)} <= each.tensors.keys()


def test_norms_in_the_file_alone_are_used_and_said(tmp_path):
    tensors = made.eagle3_tensors() | {"input_norm.weight": made.noise(96)}
    made.write(tmp_path, made.llama_config(), tensors, "model.safetensors")
    head = read(tmp_path)
    assert head.config.norm_before_fc
    assert any("norm_before_fc" in oddity for oddity in head.oddities)


def test_norms_in_the_configuration_alone_are_missing(tmp_path):
    made.eagle3(tmp_path, fc_norm=True)
    with pytest.raises(PrerequisiteError, match="says fc_norm, its tensors are missing"):
        read(tmp_path)


def test_both_norms_exclude_each_other(tmp_path):
    made.eagle3_speculators(tmp_path, norm_before_fc=True, fc_norm=True)
    with pytest.raises(PrerequisiteError, match="one norm before fc and one per layer"):
        read(tmp_path)


def test_norm_output_means_what_its_exporter_means(tmp_path):
    made.eagle3_speculators(tmp_path / "speculators", norm_output=True)
    made.eagle3_specforge(tmp_path / "specforge", norm_output=True)
    made.write(
        tmp_path / "vllm",
        made.llama_config(norm_output=True),
        {
            name.replace("midlayer.", "layers.0."): tensor
            for name, tensor in made.eagle3_tensors().items()
        },
        "model.safetensors",
    )
    assert read(tmp_path / "speculators").config.recycle == "post_norm"
    assert read(tmp_path / "vllm").config.recycle == "post_norm"
    assert read(tmp_path / "vllm").layout == "vllm"
    odd = read(tmp_path / "specforge")
    assert odd.config.recycle == "pre_norm"
    assert any("pull request 879" in oddity for oddity in odd.oddities)


def test_names_with_the_module_around_them(tmp_path):
    stored = {
        ("model." + n if n not in ("d2t", "t2d", "lm_head.weight") else n): t
        for n, t in made.eagle3_tensors().items()
    }
    made.write(tmp_path, made.llama_config(), stored, "model.safetensors")
    assert read(tmp_path).tensors["fc.weight"].shape == (32, 96)


def with_map(tmp_path, d2t, rows=4, vocabulary=8, t2d=None):
    """An EAGLE-3 head with few tokens, read for a target with few tokens."""
    tensors = made.eagle3_tensors() | {"lm_head.weight": made.noise(rows, 32)}
    del tensors["d2t"], tensors["t2d"]
    if d2t is not None:
        tensors["d2t"] = torch.tensor(d2t)
    if t2d is not None:
        tensors["t2d"] = torch.tensor(t2d, dtype=torch.bool)
    config = made.llama_config(vocab_size=vocabulary, draft_vocab_size=rows)
    made.write(tmp_path, config, tensors, "model.safetensors")
    return read(tmp_path, target=other_target(vocabulary=vocabulary))


def test_offsets_are_decoded(tmp_path):
    # used ids 0, 2, 5, 7: row 2 is token 5, not 3 (ids) nor 4 (a doubled arange)
    head = with_map(tmp_path, [0, 1, 3, 4])
    assert head.tensors["target_ids"].tolist() == [0, 2, 5, 7]
    # as ids, rows 0, 1, 3, 4 would fit too; 5 of 70 vocabularies of 4 in 8 hold no neighbours
    assert any("token 7) and as token ids (last row: token 4)" in odd for odd in head.oddities)


def test_ids_that_fit_as_offsets_are_told_by_the_mask(tmp_path):
    marked = {name: [int(i in ids) for i in range(16)] for name, ids in BOTH.items()}
    ids = with_map(tmp_path / "ids", [0, 2, 5, 7], vocabulary=16, t2d=marked["ids"])
    assert ids.tensors["target_ids"].tolist() == [0, 2, 5, 7]
    assert any("not offsets" in oddity for oddity in ids.oddities)
    offsets = with_map(tmp_path / "offsets", [0, 2, 5, 7], vocabulary=16, t2d=marked["offsets"])
    assert offsets.tensors["target_ids"].tolist() == [0, 3, 7, 10]
    assert not any("d2t" in oddity for oddity in offsets.oddities)


def test_a_few_rows_without_a_mask_are_offsets_and_both_readings_are_told(tmp_path):
    # 13! / (4! 9!) of 16! / (4! 12!), 715 of 1820, hold no neighbours: no reason to doubt
    head = with_map(tmp_path, [0, 2, 5, 7], vocabulary=16)
    assert head.tensors["target_ids"].tolist() == [0, 3, 7, 10]
    assert any("token 10) and as token ids (last row: token 7)" in odd for odd in head.oddities)


def test_many_rows_without_a_mask_that_fit_both_ways_are_refused(tmp_path):
    # C(29, 12) of C(40, 12), 0.9 %, hold no neighbours
    with pytest.raises(PrerequisiteError, match=r"offsets \(last row: token 33\).*token 22\)"):
        with_map(tmp_path, list(range(0, 24, 2)), rows=12, vocabulary=40)


def test_offsets_that_stay_the_same_are_offsets(tmp_path):
    head = with_map(tmp_path, [0, 0, *range(2, 12)], rows=12, vocabulary=40)
    assert head.tensors["target_ids"].tolist() == [0, 1, *range(4, 24, 2)]
    assert not any("d2t" in oddity for oddity in head.oddities)


def test_the_mask_is_checked(tmp_path):
    assert with_map(tmp_path / "fits", [0, 1, 3, 4], t2d=[1, 0, 1, 0, 0, 1, 0, 1])
    with pytest.raises(PrerequisiteError, match="contradicts the mask t2d, which marks 4"):
        with_map(tmp_path / "not", [0, 1, 3, 4], t2d=[1, 1, 1, 0, 0, 1, 0, 0])


def test_absolute_ids_are_told_and_said(tmp_path):
    head = with_map(tmp_path, [0, 2, 5, 7], t2d=[1, 0, 1, 0, 0, 1, 0, 1])
    assert head.tensors["target_ids"].tolist() == [0, 2, 5, 7]
    assert any("not offsets" in oddity for oddity in head.oddities)


@pytest.mark.parametrize(
    ("d2t", "message"),
    [([0, 1, 3, 9], "leads to token 12 of 8"), ([3, 1, 1, 0], "increasing tokens")],
)
def test_bad_maps(tmp_path, d2t, message):
    with pytest.raises(PrerequisiteError, match=message):
        with_map(tmp_path, d2t)


def test_a_smaller_vocabulary_without_a_map_is_refused(tmp_path):
    with pytest.raises(PrerequisiteError, match="has 4 of 8 tokens and no map"):
        with_map(tmp_path, None)


def test_the_whole_vocabulary_needs_no_map(tmp_path):
    head = with_map(tmp_path, None, rows=8)
    assert "target_ids" not in head.tensors
    assert head.config.draft_vocabulary == 8


def test_an_identity_over_the_whole_vocabulary_is_none(tmp_path):
    assert "target_ids" not in with_map(tmp_path, [0] * 8, rows=8).tensors


def test_a_map_of_the_first_ids_is_pointed_out(tmp_path):
    head = with_map(tmp_path, [0, 0, 0, 0])
    assert head.tensors["target_ids"].tolist() == [0, 1, 2, 3]
    assert any("first ids" in oddity for oddity in head.oddities)


def test_a_map_of_another_length_is_refused(tmp_path):
    with pytest.raises(PrerequisiteError, match=r"d2t has shape \[3\], lm_head has 4 rows"):
        with_map(tmp_path, [0, 1, 3])


def test_tied_ends(tmp_path):
    tensors = made.eagle3_tensors() | {"embed_tokens.weight": made.noise(128, 32)}
    for name in ("d2t", "t2d", "lm_head.weight"):
        del tensors[name]
    config = made.llama_config(tie_word_embeddings=True)
    made.write(tmp_path, config, tensors, "model.safetensors")
    head = read(tmp_path)
    assert torch.equal(head.tensors["lm_head.weight"], head.tensors["embed_tokens.weight"])
    assert head.config.draft_vocabulary == 128


def test_wrong_targets_are_refused_with_both_numbers(tmp_path):
    made.eagle3(tmp_path)
    with pytest.raises(PrerequisiteError, match="size 32, the target's have size 16"):
        read(tmp_path, target=other_target(hidden=16))
    with pytest.raises(PrerequisiteError, match="128 tokens, the target 100"):
        read(tmp_path, target=other_target(vocabulary=100))
    with pytest.raises(PrerequisiteError, match="the target has 3 layers"):
        read(tmp_path, target=other_target(layers=3))


@pytest.mark.parametrize(
    ("extra", "reason"),
    [
        ("midlayer.self_attn.q_norm.weight", "norms of queries and keys"),
        ("additional_layers.0.hidden_norm.weight", "extra layers"),
        ("midlayer.mlp.experts.0.up_proj.weight", "experts"),
    ],
)
def test_networks_that_are_not_run_are_refused_by_name(tmp_path, extra, reason):
    tensors = made.eagle3_tensors() | {extra: made.noise(16)}
    made.write(tmp_path, made.llama_config(), tensors, "model.safetensors")
    with pytest.raises(PrerequisiteError, match=reason):
        read(tmp_path)


def test_heads_on_the_last_state_alone(tmp_path):
    made.eagle3_specforge(tmp_path, eagle_config={"use_aux_hidden_state": False})
    with pytest.raises(UsageError, match="last hidden state alone"):
        read(tmp_path)


def test_quantised_weights_are_refused(tmp_path):
    tensors = made.eagle3_tensors()
    tensors["fc.weight"] = tensors["fc.weight"].to(torch.int8)
    made.write(tmp_path, made.llama_config(), tensors, "model.safetensors")
    with pytest.raises(PrerequisiteError, match=r"fc\.weight is stored as I8"):
        read(tmp_path)


def test_parallel_drafting_runs_elsewhere(tmp_path):
    tensors = made.eagle3_tensors() | {"mask_hidden": made.noise(1, 96)}
    made.write(tmp_path, made.llama_config(), tensors, "model.safetensors")
    with pytest.raises(UsageError, match="P-EAGLE") as caught:
        read(tmp_path)
    assert "vLLM >= 0.16" in caught.value.hint
