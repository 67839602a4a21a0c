"""A folder written as GGUF comes back as the same weights and the same tokenizer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("gguf")

import torch
from click.testing import CliRunner
from gguf import GGUFReader
from safetensors.torch import load_file
from transformers import AutoTokenizer

from specbench.cli.models import models
from specbench.core.cache import cache_folder
from specbench.errors import PrerequisiteError, UsageError
from specbench.models.gguf_convert import convert
from specbench.models.gguf_tokenizer import read_facts
from specbench.models.gguf_write import export
from specbench.models.locate import DEMO_MODEL, locate
from tests.models.tiny import CHAT_TEMPLATE, byte_level_tokens, tiny_model, write_gguf

TEXT = "héllo  hell 12 34\n\n<|im_start|>he<|im_end|>"


def made(tmp_path, **options):
    """A model, its GGUF by the tests' own writer, and the folder converted from that."""
    model = tiny_model(**options)
    write_gguf(tmp_path / "first.gguf", model)
    return convert(tmp_path / "first.gguf", tmp_path / "folder")


def same_bits(a, b):
    assert set(a) == set(b)
    for name in a:
        assert a[name].dtype == b[name].dtype
        assert torch.equal(a[name], b[name]), name


@pytest.mark.parametrize("tied", [True, False])
def test_there_and_back(tmp_path: Path, tied: bool) -> None:
    folder = made(tmp_path, tied=tied)
    written = export(locate(str(folder)), tmp_path / "second.gguf")
    again = convert(written, tmp_path / "again")
    same_bits(load_file(folder / "model.safetensors"), load_file(again / "model.safetensors"))
    config, other = (json.loads((f / "config.json").read_text()) for f in (folder, again))
    assert config == other
    first, second = (AutoTokenizer.from_pretrained(str(f)) for f in (folder, again))
    assert first.get_vocab() == second.get_vocab()
    assert first.encode(TEXT) == second.encode(TEXT)
    assert first.eos_token_id == second.eos_token_id == 2
    assert second.chat_template == CHAT_TEMPLATE


@pytest.mark.parametrize("tied", [True, False])
def test_the_file_equals_that_of_an_independent_writer(tmp_path: Path, tied: bool) -> None:
    folder = made(tmp_path, tied=tied)
    written = GGUFReader(export(locate(str(folder)), tmp_path / "second.gguf"))
    expected = GGUFReader(tmp_path / "first.gguf")
    mine = {t.name: t for t in written.tensors}
    assert set(mine) == {t.name for t in expected.tensors}
    for tensor in expected.tensors:
        assert tensor.tensor_type == mine[tensor.name].tensor_type
        assert (tensor.data == mine[tensor.name].data).all(), tensor.name
    for key, field in expected.fields.items():
        if not key.startswith("GGUF.") and key not in ("general.name",):
            assert written.fields[key].contents() == field.contents(), key


def test_bfloat16_is_widened_exactly(tmp_path: Path) -> None:
    folder = made(tmp_path)
    from safetensors.torch import save_file

    weights = load_file(folder / "model.safetensors")
    small = {name: tensor.bfloat16() for name, tensor in weights.items()}
    save_file(small, folder / "model.safetensors", metadata={"format": "pt"})
    again = convert(export(locate(str(folder)), tmp_path / "b.gguf"), tmp_path / "again")
    back = load_file(again / "model.safetensors")
    same_bits({name: tensor.float() for name, tensor in small.items()}, back)


def test_rows_without_a_token_get_names(tmp_path: Path) -> None:
    folder = made(tmp_path)
    content = json.loads((folder / "tokenizer.json").read_text())
    last = len(byte_level_tokens()) - 1
    content["model"]["vocab"] = {t: i for t, i in content["model"]["vocab"].items() if i < last}
    content["model"]["merges"] = content["model"]["merges"][:-1]
    (folder / "tokenizer.json").write_text(json.dumps(content))
    facts = read_facts(export(locate(str(folder)), tmp_path / "b.gguf"))
    assert facts.tokens[last] == f"[PAD{last}]"
    assert facts.tokens[:last] == tuple(byte_level_tokens()[:last])


def change(folder, file, **values):
    path = folder / file
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


@pytest.mark.parametrize(
    ("file", "values", "why"),
    [
        ("config.json", {"model_type": "qwen2"}, "architecture is qwen2"),
        ("config.json", {"attention_bias": True}, "biases"),
        (
            "config.json",
            {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}},
            r"scaled \(linear\)",
        ),
        ("tokenizer.json", {"normalizer": {"type": "NFC"}}, "normalises text: NFC"),
        ("tokenizer.json", {"pre_tokenizer": {"type": "Whitespace"}}, "is Whitespace"),
        ("tokenizer.json", {"pre_tokenizer": None}, "is nothing"),
    ],
)
def test_what_it_cannot_write_is_refused_and_leaves_nothing(tmp_path, file, values, why):
    folder = made(tmp_path)
    change(folder, file, **values)
    with pytest.raises(PrerequisiteError, match=why) as caught:
        export(locate(str(folder)), tmp_path / "out" / "b.gguf")
    assert "convert_hf_to_gguf.py" in caught.value.hint
    assert list((tmp_path / "out").iterdir()) == []


def test_wrong_names(tmp_path: Path) -> None:
    folder = locate(str(made(tmp_path)))
    (tmp_path / "here.gguf").touch()
    with pytest.raises(UsageError, match="exists already"):
        export(folder, tmp_path / "here.gguf")
    with pytest.raises(UsageError, match=r"does not end in \.gguf"):
        export(folder, tmp_path / "model.bin")
    with pytest.raises(UsageError, match="is a GGUF file already"):
        export(locate(str(tmp_path / "first.gguf")), tmp_path / "b.gguf")


def test_the_command_prints_the_file(tmp_path: Path) -> None:
    folder, to = made(tmp_path), tmp_path / "b.gguf"
    done = CliRunner().invoke(models, ["export", str(folder), "--to", str(to)])
    assert done.exit_code == 0
    assert done.stdout == f"{to}\n"
    assert read_facts(to).tensor_types == {"F32": 20}


@pytest.mark.model
def test_the_demo_model_keeps_the_tokenizer_of_its_source(tmp_path: Path) -> None:
    source = cache_folder() / "downloads" / "SmolLM2-135M-Instruct.Q4_1.gguf"
    if not source.is_file():
        pytest.skip("the GGUF file that the demo model was converted from is not in the cache")
    written = export(locate(DEMO_MODEL), tmp_path / "demo.gguf")
    mine, theirs = GGUFReader(written), GGUFReader(source)
    keys = {key for key in theirs.fields if key.startswith("tokenizer.")}
    assert {key for key in mine.fields if key.startswith("tokenizer.")} == keys
    for key in keys:
        assert mine.fields[key].contents() == theirs.fields[key].contents(), key
