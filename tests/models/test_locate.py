"""Names to places, without a socket (case G6)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from specbench.cli.models import models
from specbench.core.cache import cache_folder
from specbench.errors import PrerequisiteError, UsageError
from specbench.models.folder import read_json, read_record
from specbench.models.locate import DEMO_MODEL, hub_cache, locate

pytestmark = pytest.mark.usefixtures("no_sockets")


def cached_repository(bare: Path, name: str, commit: str = "c0ffee") -> Path:
    repository = hub_cache() / f"models--{name.replace('/', '--')}"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(commit)
    (repository / "snapshots").mkdir()
    return bare.rename(repository / "snapshots" / commit)


def test_folder(bare_folder: Path) -> None:
    found = locate(str(bare_folder))
    assert (found.kind, found.path, found.revision) == ("folder", bare_folder, None)


def test_gguf_file(tmp_path: Path) -> None:
    file = tmp_path / "m.gguf"
    file.touch()
    assert locate(str(file)).kind == "gguf"
    with pytest.raises(PrerequisiteError, match=r"no GGUF file .*other\.gguf"):
        locate(str(tmp_path / "other.gguf"))


def test_demo_model_absent_names_the_command() -> None:
    with pytest.raises(PrerequisiteError, match=f"specbench models fetch {DEMO_MODEL}") as caught:
        locate(DEMO_MODEL)
    assert caught.value.exit_code == 3


def test_demo_model_of_an_older_converter_is_not_used(bare_folder: Path) -> None:
    target = cache_folder() / "models" / DEMO_MODEL
    target.parent.mkdir(parents=True)
    bare_folder.rename(target)
    (target / "specbench.json").write_text(json.dumps({"converter_version": 0}))
    with pytest.raises(PrerequisiteError, match="another version"):
        locate(DEMO_MODEL)


def test_unknown_name_shows_nearest() -> None:
    with pytest.raises(UsageError, match=f"did you mean {DEMO_MODEL}"):
        locate("smollm2-135m")


@pytest.mark.parametrize("name", ["./nothing", "~/nothing/here", "/nothing/at/all"])
def test_missing_folder(name: str) -> None:
    with pytest.raises(PrerequisiteError, match="no folder"):
        locate(name)


@pytest.mark.parametrize(
    ("removed", "message"),
    [
        ("config.json", "no config.json"),
        ("model.safetensors", r"no \*.safetensors"),
        ("tokenizer.json", "no tokenizer"),
    ],
)
def test_incomplete_folder(bare_folder: Path, removed: str, message: str) -> None:
    (bare_folder / removed).unlink()
    with pytest.raises(PrerequisiteError, match=message):
        locate(str(bare_folder))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[1, 2]", r"config\.json holds \[1, 2\], expected a JSON object"),
        ("null", r"config\.json holds null, expected a JSON object"),
        ("{", r"config\.json is not JSON"),
        ("[" * 100_000, r"config\.json is not JSON"),
    ],
)
def test_a_file_that_holds_no_object(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(PrerequisiteError, match=message):
        read_json(tmp_path / "config.json")
    assert read_json(tmp_path / "absent.json") == {}


def test_a_damaged_record_is_none(tmp_path: Path) -> None:
    (tmp_path / "specbench.json").write_bytes(b"\xff")
    assert read_record(tmp_path) is None


def test_missing_shard_is_named(bare_folder: Path) -> None:
    index = {"weight_map": {"a": "model.safetensors", "b": "model-2.safetensors"}}
    (bare_folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(PrerequisiteError, match=r"1 of 2 weight files: model-2\.safetensors"):
        locate(str(bare_folder))


def test_pickles_are_refused_unless_allowed(bare_folder: Path) -> None:
    (bare_folder / "model.safetensors").rename(bare_folder / "pytorch_model.bin")
    with pytest.raises(PrerequisiteError, match="pickled"):
        locate(str(bare_folder))
    assert locate(str(bare_folder), allow_pickle=True).kind == "folder"


def test_adapter_folder(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(PrerequisiteError, match="adapter"):
        locate(str(tmp_path))


def test_hub_model_not_cached() -> None:
    assert locate("org/name", revision="v1").path is None
    with pytest.raises(PrerequisiteError, match="fetch org/name --revision v1"):
        locate("org/name", revision="v1", offline=True)


def test_offline_by_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(PrerequisiteError, match="offline"):
        locate("org/name")


def test_cached_hub_model_gives_its_commit(bare_folder: Path) -> None:
    snapshot = cached_repository(bare_folder, "org/name")
    found = locate("org/name", offline=True)
    assert (found.kind, found.revision, found.path) == ("hub", "c0ffee", snapshot)
    assert locate("org/name", revision="c0ffee", offline=True).path == snapshot
    with pytest.raises(PrerequisiteError, match="did you mean org/name"):
        locate("org/nam", offline=True)


def test_incomplete_cached_hub_model(bare_folder: Path) -> None:
    (cached_repository(bare_folder, "org/name") / "model.safetensors").unlink()
    assert locate("org/name").path is None
    with pytest.raises(PrerequisiteError, match="incomplete"):
        locate("org/name", offline=True)


def test_revision_of_a_local_model(bare_folder: Path) -> None:
    with pytest.raises(UsageError, match="not a hub model"):
        locate(str(bare_folder), revision="main")


def test_cache_folder_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    monkeypatch.setenv("SPECBENCH_CACHE", "/s")
    assert cache_folder() == Path("/s")
    monkeypatch.delenv("SPECBENCH_CACHE")
    assert cache_folder() == Path("/x/specbench")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "specbench"


def test_locating_and_the_command_need_no_torch() -> None:
    code = (
        "import sys, specbench.cli.models, specbench.models.load;"
        "print(sorted({'torch', 'transformers', 'gguf'} & set(sys.modules)))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert shown.stdout.strip() == "[]"


def test_inspect_command(bare_folder: Path) -> None:
    (bare_folder / "config.json").write_text(json.dumps({"model_type": "llama", "vocab_size": 9}))
    done = CliRunner().invoke(models, ["inspect", str(bare_folder), "--json"])
    answer = json.loads(done.stdout)
    assert (answer["kind"], answer["architecture"]) == ("folder", "llama")
    assert (answer["vocabulary_rows"], answer["tokens"], answer["hidden"]) == (9, None, None)
    assert answer["chat_template"] is False
    lines = CliRunner().invoke(models, ["inspect", str(bare_folder)]).stdout
    assert "9 rows, not stated with a token" in lines
    missing = CliRunner().invoke(models, ["inspect", "org/name", "--revision", "v1"])
    assert isinstance(missing.exception, PrerequisiteError)
    assert missing.exception.hint == (
        "type: specbench models fetch org/name --revision v1 "
        "(a drafting head: specbench models fetch --head org/name --revision v1)"
    )
