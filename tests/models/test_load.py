"""Loading: what is filled in, what is refused, and that nothing is random or remote."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch
from safetensors.torch import load_file, save_file

from specbench.core.cache import cache_folder
from specbench.errors import PrerequisiteError, UsageError
from specbench.models.inspect import describe
from specbench.models.load import load_model
from specbench.models.locate import DEMO_MODEL, locate
from specbench.models.weights import weight_bytes, weight_hash
from tests.models.tiny import byte_level_tokens, tiny_model, write_tokenizer


@pytest.mark.usefixtures("no_sockets")
def test_everything_is_filled_in(tiny_folder: Path) -> None:
    loaded = load_model(locate(str(tiny_folder)), dtype="float32", device="cpu")
    rows = len(byte_level_tokens())
    assert (loaded.dtype, loaded.device, loaded.context_limit) == (
        torch.float32,
        torch.device("cpu"),
        64,
    )
    # EOS of the configuration is the end of text; the chat template ends turns with <|im_end|>.
    assert loaded.eos_ids == (0, 2)
    assert loaded.real_vocab_size == rows
    assert loaded.weight_hash == weight_hash(tiny_folder, cached=False)
    assert not loaded.model.training
    assert not any(p.requires_grad for p in loaded.model.parameters())
    assert loaded.weight_bytes == sum(p.numel() * 4 for p in loaded.model.parameters())


def test_weights_are_copied_aligned_and_still_tied(tiny_folder: Path) -> None:
    model = load_model(locate(str(tiny_folder)), dtype="float32").model
    assert {p.data_ptr() % 64 for p in model.parameters()} == {0}
    assert model.lm_head.weight.data_ptr() == model.model.embed_tokens.weight.data_ptr()
    reference = tiny_model()
    ids = torch.tensor([[4, 9, 30]])
    with torch.inference_mode():
        torch.testing.assert_close(model(ids).logits, reference(ids).logits, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_dtype(tiny_folder: Path, dtype: str) -> None:
    single = load_model(locate(str(tiny_folder)), dtype="float32")
    half = load_model(locate(str(tiny_folder)), dtype=dtype)
    assert half.dtype == getattr(torch, dtype)
    assert half.weight_bytes * 2 == single.weight_bytes
    assert half.weight_hash == single.weight_hash


def test_unknown_dtype_and_device(tiny_folder: Path) -> None:
    with pytest.raises(UsageError, match="float32, bfloat16, float16, auto"):
        load_model(locate(str(tiny_folder)), dtype="fp32")
    with pytest.raises(UsageError, match="unknown device"):
        load_model(locate(str(tiny_folder)), device="gpu")
    with pytest.raises(PrerequisiteError, match="cannot be used here"):
        load_model(locate(str(tiny_folder)), device="cuda:99")


def test_missing_tensor_is_not_made_up(tiny_folder: Path) -> None:
    file = tiny_folder / "model.safetensors"
    tensors = load_file(file)
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, file, metadata={"format": "pt"})
    with pytest.raises(PrerequisiteError, match=r"lacks 1 tensors.*layers\.1\.mlp\.up_proj"):
        load_model(locate(str(tiny_folder)))


def test_torn_file(tiny_folder: Path) -> None:
    file = tiny_folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(PrerequisiteError, match="cannot load"):
        load_model(locate(str(tiny_folder)))


def test_pickles(tmp_path: Path) -> None:
    folder = tmp_path / "pickled"
    model = tiny_model()
    model.config.save_pretrained(folder)  # type: ignore[attr-defined]
    write_tokenizer(folder)
    state = {k: v for k, v in model.state_dict().items() if k != "lm_head.weight"}  # type: ignore[attr-defined]
    torch.save(state, folder / "pytorch_model.bin")
    location = locate(str(folder), allow_pickle=True)
    with pytest.raises(PrerequisiteError, match="pickled"):
        load_model(location)
    loaded = load_model(location, allow_pickle=True, dtype="float32")
    assert torch.equal(loaded.model.state_dict()["model.norm.weight"], state["model.norm.weight"])


def test_code_of_a_checkpoint_is_not_run(tiny_folder: Path) -> None:
    ran = tiny_folder / "ran"
    (tiny_folder / "modeling_own.py").write_text(f"open({str(ran)!r}, 'w')\n")
    config = json.loads((tiny_folder / "config.json").read_text())
    config["model_type"] = "own"
    config["auto_map"] = {
        "AutoConfig": "modeling_own.OwnConfig",
        "AutoModelForCausalLM": "modeling_own.Own",
    }
    (tiny_folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(PrerequisiteError, match=r"cannot (load|be loaded)"):
        load_model(locate(str(tiny_folder)))
    assert not ran.exists()


def test_gguf_is_converted_once_into_the_cache(tiny_gguf: Path) -> None:
    said: list[str] = []
    loaded = load_model(locate(str(tiny_gguf)), dtype="float32", progress=said.append)
    assert said
    assert loaded.location.path is not None
    assert loaded.location.path.parent == cache_folder() / "gguf"
    assert loaded.eos_ids == (2,)
    said.clear()
    again = load_model(locate(str(tiny_gguf)), dtype="float32", progress=said.append)
    assert said == []
    assert again.weight_hash == loaded.weight_hash


def test_weight_hash_notices_a_change(tiny_folder: Path) -> None:
    before = weight_hash(tiny_folder)
    assert weight_hash(tiny_folder) == before
    file = tiny_folder / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    assert weight_hash(tiny_folder) != before


def test_only_files_that_are_loaded_count(tiny_folder: Path) -> None:
    before = weight_hash(tiny_folder)
    (tiny_folder / "consolidated.safetensors").write_bytes(b"another layout of the same model")
    assert weight_hash(tiny_folder) == before
    assert load_model(locate(str(tiny_folder))).weight_hash == before


def test_weight_bytes_of_views() -> None:
    model = torch.nn.Linear(4, 4, bias=False)
    model.register_buffer("view", model.weight.data[:2])
    model.register_buffer("own", torch.zeros(3))
    assert weight_bytes(model) == 16 * 4 + 3 * 4


def test_description(tiny_folder: Path, tiny_gguf: Path) -> None:
    folder = describe(locate(str(tiny_folder)))
    rows = len(byte_level_tokens())
    assert (folder.architecture, folder.layers, folder.hidden) == ("LlamaForCausalLM", 2, 32)
    assert (folder.heads, folder.kv_heads, folder.context) == (4, 2, 64)
    assert (folder.vocabulary_rows, folder.tokens) == (rows, rows)
    assert folder.chat_template
    assert folder.parameters == sum(p.numel() for p in tiny_model().parameters())  # type: ignore[attr-defined]
    file = describe(locate(str(tiny_gguf)))
    assert (file.parameters, file.tokens, file.context) == (folder.parameters, rows, 64)
    assert (file.bos, file.eos) == ("<|im_start|>", "<|im_end|>")


@pytest.mark.model
def test_demo_model_talks_sense() -> None:
    loaded = load_model(locate(DEMO_MODEL), dtype="float32")
    assert (loaded.context_limit, loaded.eos_ids, loaded.real_vocab_size) == (8192, (2,), 49152)
    assert loaded.weight_bytes == 134_515_008 * 4
    question = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = loaded.tokenizer.apply_chat_template(
        question, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    with torch.inference_mode():
        out = loaded.model.generate(**prompt, max_new_tokens=10, do_sample=False)
    assert "Paris" in loaded.tokenizer.decode(out[0, prompt["input_ids"].shape[1] :])
