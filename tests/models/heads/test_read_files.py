"""Files of heads: indexes, pickles, damage; nothing outside the folder, no code from the file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from specbench.errors import PrerequisiteError, UsageError
from specbench.models.folder import weight_files
from specbench.models.heads.fetch import fetch_head
from specbench.models.heads.files import LeadsOut, open_checkpoint
from specbench.models.heads.read import read_head
from specbench.models.heads.sniff import holds_only_a_head
from specbench.models.heads.target_facts import target_facts
from specbench.models.load import load_model
from specbench.models.locate import Location, hub_cache, locate
from tests.models.heads import fixtures as made
from tests.models.heads import mtp_fixtures
from tests.models.heads.reading import read


def test_an_index_over_shards(tmp_path):
    tensors = made.eagle3_tensors()
    names = sorted(tensors)
    halves = {
        "model-1.safetensors": {n: tensors[n] for n in names[:5]},
        "model-2.safetensors": {n: tensors[n] for n in names[5:]},
    }
    made.shard(tmp_path / "sharded", halves, made.llama_config())
    made.eagle3(tmp_path / "whole")
    sharded, whole = read(tmp_path / "sharded"), read(tmp_path / "whole")
    assert sharded.config == whole.config
    assert all(torch.equal(sharded.tensors[n], whole.tensors[n]) for n in whole.tensors)
    assert len(sharded.weight_hash) == 64


@pytest.mark.parametrize(
    "place", ["../outside.safetensors", "/tmp/outside.safetensors", "a/../../b"]
)
def test_an_index_cannot_leave_its_folder(tmp_path, place):
    folder = tmp_path / "head"
    made.eagle3(folder)
    (folder / "model.safetensors").rename(tmp_path / "outside.safetensors")
    index = {"weight_map": {"fc.weight": place}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(LeadsOut, match="leads out of its folder"):
        open_checkpoint(folder)
    with pytest.raises(LeadsOut):
        locate(str(folder))


def test_a_shard_that_lacks_what_the_index_says(tmp_path):
    made.eagle3(tmp_path)
    index = {"weight_map": {"gone.weight": "model.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(PrerequisiteError, match=r"lacks tensor gone\.weight"):
        open_checkpoint(tmp_path).shape("gone.weight")


class RunsCode:
    """Makes a file when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self):
        return os.mkdir, (str(self.file),)


def test_a_pickle_with_code_is_refused_and_not_run(tmp_path):
    made.eagle1(tmp_path)
    torch.save({"fc.weight": RunsCode(tmp_path / "ran")}, tmp_path / "pytorch_model.bin")
    with pytest.raises(PrerequisiteError, match="could run code"):
        read(tmp_path)
    assert not (tmp_path / "ran").exists()


def test_pickles_of_old_torch(tmp_path):
    stored = made.eagle1(tmp_path)
    torch.save(stored, tmp_path / "pytorch_model.bin", _use_new_zipfile_serialization=False)
    assert torch.equal(read(tmp_path).tensors["fc.weight"], stored["fc.weight"])


MAGIC = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19." + b"\x80\x02M\xe9\x03."
"""How a file of old torch begins: its magic number and its protocol."""


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"PK\x03\x04 no archive", b"\x80\x02garbage", b"\x80\x02h\x05.", b"\x80\x020."),
        *(b"\x80\x02}q\x00(K\x01u.", b"\x80\x02.", b"\x80\x02K\x01K\x02b."),
        *(MAGIC, MAGIC + b"\x80\x02}.", MAGIC + b"\x80\x02}.\x80\x02h\x05."),
        *(MAGIC + b"\x80\x02}.\x80\x02Q.", MAGIC + b"\x80\x02}.\x80\x02K\x01K\x02s."),
    ],
)
def test_damaged_pickles(tmp_path, content):
    made.eagle1(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(content)
    with pytest.raises(PrerequisiteError, match=r"pytorch_model\.bin"):
        read(tmp_path)
    with pytest.raises(PrerequisiteError, match=r"pytorch_model\.bin"):
        locate(str(tmp_path))


@pytest.mark.parametrize(
    "error", [KeyError("x"), IndexError("pop"), TypeError("x"), AttributeError("x"), EOFError()]
)
def test_whatever_a_reader_of_pickles_raises(tmp_path, monkeypatch, error):
    made.eagle1(tmp_path)

    def load(*given, **options):
        raise error

    monkeypatch.setattr(torch, "load", load)
    with pytest.raises(PrerequisiteError, match=r"pytorch_model\.bin cannot be read"):
        read(tmp_path)


@pytest.mark.parametrize("count", [2, made.LAYERS])
def test_a_pickled_head_whose_configuration_counts_layers(tmp_path, count):
    stored = made.eagle1(tmp_path, num_hidden_layers=count)
    if count == 2:
        second = made.decoder("layers.1.", made.HIDDEN, seed=1)
        second["layers.1.input_layernorm.weight"] = made.noise(made.HIDDEN)
        config = made.llama_config(num_hidden_layers=2)
        made.write(tmp_path, config, stored | second, "pytorch_model.bin")
    assert locate(str(tmp_path)).path == tmp_path
    assert read(tmp_path).config.layers == (2 if count == 2 else 1)


def test_a_pickled_model_without_a_tokenizer_is_no_head(tmp_path):
    config = made.llama_config(num_hidden_layers=8)
    made.write(tmp_path, config, made.small_model(), "pytorch_model.bin")
    with pytest.raises(PrerequisiteError, match="pickled weights only") as caught:
        locate(str(tmp_path))
    assert caught.value.hint == "convert them to safetensors"


def _index(folder, name, tensors, file):
    (folder / name).write_text(json.dumps({"weight_map": dict.fromkeys(tensors, file)}))


def test_an_index_of_pickles_beside_safetensors_does_not_count(tmp_path):
    config = made.llama_config(num_hidden_layers=made.LAYERS)
    made.write(tmp_path, config, made.small_model(), "model.safetensors")
    _index(tmp_path, "pytorch_model.bin.index.json", ["a"], "pytorch_model-1.bin")
    (tmp_path / "pytorch_model-1.bin").write_bytes(b"not read")
    assert open_checkpoint(tmp_path).files.keys() == made.small_model().keys()
    facts = target_facts(Location("folder", "t", None, tmp_path, "folder"))
    assert facts.last_layer["mlp.up_proj.weight"] == (made.INNER, made.HIDDEN)
    assert weight_files(tmp_path, allow_pickle=True) == [tmp_path / "model.safetensors"]


def test_an_index_of_pickles_counts_beside_medusa_heads(tmp_path):
    heads = made.medusa_v2(tmp_path)
    config = made.llama_config(num_hidden_layers=made.LAYERS)
    model = made.write(tmp_path, config, made.small_model(), "pytorch_model-1.bin")
    _index(tmp_path, "pytorch_model.bin.index.json", model, "pytorch_model-1.bin")
    assert open_checkpoint(tmp_path).files.keys() == heads.keys() | model.keys()
    facts = target_facts(Location("folder", "t", None, tmp_path, "folder"))
    assert facts.last_layer == {}


def test_pickles_of_ordinary_models_are_not_opened(tmp_path, monkeypatch):
    config = made.llama_config(num_hidden_layers=8)
    made.write(tmp_path, config, made.small_model(), "pytorch_model.bin")
    (tmp_path / "tokenizer.json").write_text("{}")

    def opened(file):
        raise AssertionError(file)

    monkeypatch.setattr("specbench.models.heads.pickles.read_pickle", opened)
    with pytest.raises(PrerequisiteError, match="pickled weights only"):
        locate(str(tmp_path))


@pytest.mark.parametrize("index", ["{}", "[]", '{"weight_map": []}', "not JSON"])
def test_indexes_that_name_nothing(tmp_path, index):
    made.medusa_merged(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text(index)
    with pytest.raises(PrerequisiteError, match=r"model\.safetensors\.index\.json"):
        locate(str(tmp_path))


def test_a_pickle_that_is_no_table_of_tensors(tmp_path):
    made.eagle1(tmp_path)
    torch.save([1, 2], tmp_path / "pytorch_model.bin")
    with pytest.raises(PrerequisiteError, match="not a table of named tensors"):
        read(tmp_path)


@pytest.mark.parametrize(
    "content", [b"", b"\x08\0\0\0\0\0\0\0notjson!", b"\xff" * 16, b"\x02\0\0\0\0\0\0\0[]"]
)
def test_damaged_safetensors(tmp_path, content):
    made.eagle3(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(PrerequisiteError, match="not a safetensors file"):
        read(tmp_path)


@pytest.mark.parametrize(
    "entry",
    [
        *(1, None, [], {}, {"dtype": "F32"}, {"dtype": "F32", "shape": [1]}),
        {"dtype": 1, "shape": [1], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": "a", "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [1], "data_offsets": [0]},
        {"dtype": "F32", "shape": [1], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]},
    ],
)
def test_headers_that_describe_no_tensor(tmp_path, entry):
    made.eagle3(tmp_path)
    header = json.dumps({"fc.weight": entry}).encode()
    content = len(header).to_bytes(8, "little") + header + bytes(4)
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(PrerequisiteError, match=r"model\.safetensors cannot be read.*fc\.weight"):
        read(tmp_path)
    with pytest.raises(PrerequisiteError):
        locate(str(tmp_path))


def test_weights_that_are_cut_off(tmp_path):
    made.eagle3(tmp_path)
    whole = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(whole[:-100])
    with pytest.raises(PrerequisiteError, match="cannot be read"):
        read(tmp_path)


def test_a_tensor_in_two_files(tmp_path):
    tensors = made.eagle3(tmp_path, file="a.safetensors")
    made.write(tmp_path, made.llama_config(), {"d2t": tensors["d2t"]}, "b.safetensors")
    with pytest.raises(PrerequisiteError, match=r"holds tensor d2t twice"):
        read(tmp_path)


def test_files_of_the_training_run_are_no_weights(tmp_path):
    made.eagle1(tmp_path)
    torch.save(RunsCode(tmp_path / "ran"), tmp_path / "training_args.bin")
    torch.save(RunsCode(tmp_path / "ran"), tmp_path / "optimizer.pt")
    assert read(tmp_path).family == "eagle1"


def test_an_empty_folder(tmp_path):
    with pytest.raises(PrerequisiteError, match="has no weights"):
        read(tmp_path)


@pytest.mark.parametrize(
    "write", [made.eagle1, made.eagle3, made.medusa_v1, made.medusa_vllm, mtp_fixtures.speculators]
)
def test_heads_are_located_without_a_tokenizer(tmp_path, write):
    write(tmp_path)
    assert locate(str(tmp_path)).path == tmp_path


@pytest.mark.parametrize("write", [made.medusa_merged, mtp_fixtures.nextn, mtp_fixtures.qwen_next])
def test_a_model_with_a_head_still_needs_its_tokenizer(tmp_path, write):
    write(tmp_path)
    assert not holds_only_a_head(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(PrerequisiteError, match="no tokenizer"):
        locate(str(tmp_path))


def test_a_head_is_no_model(tmp_path):
    made.eagle3(tmp_path)
    with pytest.raises(PrerequisiteError, match="no tokenizer"):
        load_model(locate(str(tmp_path)))


def test_a_cached_hub_head(tmp_path):
    repository = hub_cache() / "models--org--head"
    made.eagle1(repository / "snapshots" / "c0ffee")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("c0ffee")
    found = locate("org/head", offline=True)
    assert (found.revision, found.kind) == ("c0ffee", "hub")


def test_fetching_takes_pickles_and_needs_no_tokenizer(tmp_path, monkeypatch):
    hub = pytest.importorskip("huggingface_hub")
    asked = {}

    def download(name, **options):
        asked.update(options, name=name)
        made.eagle1(tmp_path / "c0ffee")
        return str(tmp_path / "c0ffee")

    monkeypatch.setattr(hub, "snapshot_download", download)
    found = fetch_head("org/head", "v2")
    assert (found.kind, found.path, found.revision) == ("hub", tmp_path / "c0ffee", "c0ffee")
    assert (asked["name"], asked["revision"]) == ("org/head", "v2")
    assert "*.bin" in asked["allow_patterns"]
    assert "training_args.bin" in asked["ignore_patterns"]


def test_a_head_that_is_not_cached_is_fetched_when_read(monkeypatch, tmp_path):
    hub = pytest.importorskip("huggingface_hub")

    def download(name, **options):
        made.eagle1(tmp_path / "c0ffee")
        return str(tmp_path / "c0ffee")

    monkeypatch.setattr(hub, "snapshot_download", download)
    found = locate("org/head")
    assert found.path is None
    head = read_head(found, families=("eagle1",), target=made.TARGET, dtype="float32")
    assert (head.name, head.revision) == ("org/head", "c0ffee")


def test_offline_nothing_is_fetched(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for revision, option in (("main", ""), ("v2", " --revision v2")):
        found = Location("hub", "org/head", revision, None, f"hub org/head@{revision}")
        with pytest.raises(PrerequisiteError, match="this is offline") as caught:
            read_head(found, families=("eagle1",), target=made.TARGET, dtype="float32")
        assert caught.value.hint.endswith(f"specbench models fetch --head org/head{option}")


def test_what_cannot_be_fetched():
    with pytest.raises(UsageError, match="no hub id"):
        fetch_head("somewhere")


def test_gguf_files_hold_no_heads(tmp_path):
    (tmp_path / "m.gguf").touch()
    found = locate(str(tmp_path / "m.gguf"))
    with pytest.raises(UsageError, match="GGUF"):
        read_head(found, families=("mtp",), target=made.TARGET, dtype="float32")


def test_headers_need_no_torch(tmp_path):
    made.eagle3(tmp_path)
    code = (
        "import sys\n"
        "from click.testing import CliRunner\n"
        "from specbench.cli.models import models\n"
        f"done = CliRunner().invoke(models, ['inspect', {str(tmp_path)!r}])\n"
        "assert done.exit_code == 0, done.output\n"
        "heavy = sorted({'torch', 'transformers'} & set(sys.modules))\n"
        "print('family eagle3' in done.stdout, heavy)"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    assert shown.stdout.strip() == "True []", shown.stderr
