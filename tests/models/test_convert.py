"""A GGUF file becomes a folder with the same function and the same tokens."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("gguf")

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from specbench.errors import PrerequisiteError
from specbench.models import gguf_convert
from specbench.models.gguf_convert import convert
from specbench.models.weights import weight_hash
from tests.models.tiny import MERGES, SPECIAL, byte_level_tokens, tiny_model, write_gguf

IDS = torch.tensor([[5, 17, 40, 99, 3, 250]])


@pytest.mark.parametrize("tied", [True, False])
def test_same_logits_as_the_source(tmp_path: Path, tied: bool) -> None:
    model = tiny_model(tied=tied)
    write_gguf(tmp_path / "m.gguf", model)
    folder = convert(tmp_path / "m.gguf", tmp_path / "out")
    again = AutoModelForCausalLM.from_pretrained(folder)
    assert again.config.tie_word_embeddings is tied
    assert again.config.architectures == ["LlamaForCausalLM"]
    assert not hasattr(again.config, "quantization_config")
    with torch.inference_mode():
        torch.testing.assert_close(again(IDS).logits, model(IDS).logits, rtol=0, atol=1e-6)


def test_record(tmp_path: Path, tiny_gguf: Path) -> None:
    folder = convert(tiny_gguf, tmp_path / "out", notes={"source_package": "w==1"})
    record = json.loads((folder / "specbench.json").read_text())
    assert record["source_sha256"] == hashlib.sha256(tiny_gguf.read_bytes()).hexdigest()
    assert record["weight_hash"] == weight_hash(folder, cached=False)
    assert record["source_package"] == "w==1"
    assert record["tokenizer_notes"] == [
        "pre-tokenizer 'smollm' restored: single digits, then the GPT-2 pattern"
    ]


def test_tokenizer(tmp_path: Path, tiny_gguf: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(convert(tiny_gguf, tmp_path / "out"))
    tokens = byte_level_tokens()
    assert {i: t for t, i in tokenizer.get_vocab().items()} == dict(enumerate(tokens))
    assert [tokenizer.encode(t) for t in SPECIAL] == [[0], [1], [2]]
    # Digits part first, so that all spaces before one stay together; GPT-2's pattern alone
    # would leave the last space to the digit.
    assert tokenizer.convert_ids_to_tokens(tokenizer.encode("x   12")) == ["x", "ĠĠĠ", "1", "2"]
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": "he"}], tokenize=False, add_generation_prompt=True
    )
    assert text == "<|im_start|>user\nhe<|im_end|>\n<|im_start|>assistant\n"
    assert len(MERGES) == 4


def test_same_bytes_twice_and_no_second_conversion(
    tmp_path: Path, tiny_gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = convert(tiny_gguf, tmp_path / "a")
    assert weight_hash(first) == weight_hash(convert(tiny_gguf, tmp_path / "b"))

    def fail(*_: object) -> None:
        raise AssertionError("converted again")

    monkeypatch.setattr(gguf_convert, "_write_model", fail)
    assert convert(tiny_gguf, tmp_path / "a") == first


def test_outdated_folder_is_replaced(tmp_path: Path, tiny_gguf: Path) -> None:
    out = tmp_path / "dir" / "out"
    out.mkdir(parents=True)
    (out / "stale").touch()
    convert(tiny_gguf, out)
    assert not (out / "stale").exists()
    assert [p.name for p in out.parent.iterdir()] == ["out"]


def test_faster_process_wins(
    tmp_path: Path, tiny_gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "dir" / "out"
    write = gguf_convert._write_record

    def other_finishes_first(*arguments: object) -> None:
        monkeypatch.setattr(gguf_convert, "_write_record", write)
        convert(tiny_gguf, out)
        (out / "theirs").touch()
        write(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(gguf_convert, "_write_record", other_finishes_first)
    convert(tiny_gguf, out)
    assert (out / "theirs").exists()
    assert [p.name for p in out.parent.iterdir()] == ["out"]


def test_missing_tensor_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    write_gguf(tmp_path / "m.gguf", tiny_model(), drop="blk.1.ffn_up.weight")
    out = tmp_path / "dir" / "out"
    with pytest.raises(PrerequisiteError, match=r"lacks 1 tensors.*layers\.1\.mlp\.up_proj"):
        convert(tmp_path / "m.gguf", out)
    assert list(out.parent.iterdir()) == []


def test_not_a_gguf_file(tmp_path: Path) -> None:
    broken = tmp_path / "m.gguf"
    broken.write_bytes(b"not a model at all")
    with pytest.raises(PrerequisiteError, match="not a readable GGUF"):
        convert(broken, tmp_path / "out")
