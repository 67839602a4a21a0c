"""``zoo:NAME``: names, places that names cannot lead to, and the list of what ships."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from specbench.errors import PrerequisiteError, UsageError
from specbench.models.locate import locate
from specbench.models.shipped import shipped
from specbench.models.zoo import shipped_folder, zoo_folder, zoo_names
from tests.models.heads import fixtures, mtp_fixtures
from tests.models.tables import write_table

pytestmark = pytest.mark.usefixtures("no_sockets")

RECIPES = Path(__file__).parents[2] / "scripts" / "train_zoo"


@pytest.fixture
def zoo(tmp_path: Path) -> Path:
    """Two heads and a table, the EAGLE-3 head with a card."""
    root = tmp_path / "zoo"
    mtp_fixtures.speculators(root / "tiny-mtp")
    fixtures.eagle3_specforge(root / "tiny-eagle3")
    write_table(root / "tiny-bigram", [1, 2, -1])
    card = {
        "target": {"name": "tiny", "weight_hash": "12" * 32},
        "suites": {"code": {"accept_length": 2.4, "k": 3}, "chat": {"accept_length": 1.9}},
    }
    (root / "tiny-eagle3" / "training.json").write_text(json.dumps(card))
    return root


def test_a_name_leads_to_its_folder(zoo: Path) -> None:
    found = locate("zoo:tiny-mtp", zoo=zoo)
    assert (found.kind, found.name, found.revision) == ("zoo", "zoo:tiny-mtp", None)
    assert found.path == zoo / "tiny-mtp"
    assert "ships with specbench" in found.source


def test_heads_need_no_tokenizer_and_models_do(zoo: Path, bare_folder: Path) -> None:
    bare_folder.rename(zoo / "draft")
    assert locate("zoo:draft", zoo=zoo).path == zoo / "draft"
    (zoo / "draft" / "tokenizer.json").unlink()
    with pytest.raises(PrerequisiteError, match="no tokenizer"):
        locate("zoo:draft", zoo=zoo)
    assert locate("zoo:tiny-bigram", zoo=zoo).path == zoo / "tiny-bigram"


def test_an_unknown_name_shows_the_nearest(zoo: Path) -> None:
    with pytest.raises(UsageError, match="unknown head 'zoo:tiny-eagl'") as caught:
        locate("zoo:tiny-eagl", zoo=zoo)
    assert "did you mean zoo:tiny-eagle3" in caught.value.hint
    with pytest.raises(UsageError, match="unknown head 'zoo:'"):
        locate("zoo:", zoo=zoo)


@pytest.mark.parametrize("root", ["absent", "empty"])
def test_an_installation_without_heads_says_so(tmp_path: Path, root: str) -> None:
    (tmp_path / "empty").mkdir()
    assert zoo_names(tmp_path / root) == []
    with pytest.raises(PrerequisiteError, match="zoo:tiny-mtp: no heads came with") as caught:
        locate("zoo:tiny-mtp", zoo=tmp_path / root)
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    "name", ["..", "../secret", "tiny-mtp/../../secret", "./tiny-mtp", ".", "link", ".hidden"]
)
def test_no_name_leads_out_of_the_folder(zoo: Path, name: str) -> None:
    mtp_fixtures.speculators(zoo.parent / "secret")
    mtp_fixtures.speculators(zoo / ".hidden")
    (zoo / "link").symlink_to(zoo.parent / "secret")
    with pytest.raises(UsageError, match="unknown head"):
        shipped_folder(f"zoo:{name}", zoo)
    with pytest.raises(UsageError, match="unknown head"):
        shipped_folder(f"zoo:{zoo.parent / 'secret'}", zoo)


def test_a_damaged_head_is_said(zoo: Path) -> None:
    (zoo / "tiny-eagle3" / "config.json").unlink()
    for file in (zoo / "tiny-eagle3").glob("*.safetensors"):
        file.unlink()
    with pytest.raises(PrerequisiteError, match=r"no config\.json"):
        locate("zoo:tiny-eagle3", zoo=zoo)
    (found,) = [one for one in shipped(zoo) if one.name == "zoo:tiny-eagle3"]
    assert "has no weights" in str(found.problem)


def test_a_revision_does_not_apply(zoo: Path) -> None:
    with pytest.raises(UsageError, match="not a hub model"):
        locate("zoo:tiny-mtp", revision="main", zoo=zoo)


def test_a_folder_of_that_name_is_written_as_a_path(
    zoo: Path, bare_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare_folder.rename(zoo.parent / "zoo:tiny-mtp")
    monkeypatch.chdir(zoo.parent)
    assert locate("zoo:tiny-mtp", zoo=zoo).path == zoo / "tiny-mtp"
    assert locate("./zoo:tiny-mtp", zoo=zoo).kind == "folder"


def test_the_list_says_what_each_is(zoo: Path) -> None:
    config, weights = fixtures.llama_config(), fixtures.small_model()
    fixtures.write(zoo / "tiny-draft", config, weights, "model.safetensors")
    found = {one.name: one for one in shipped(zoo)}
    assert list(found) == ["zoo:tiny-bigram", "zoo:tiny-draft", "zoo:tiny-eagle3", "zoo:tiny-mtp"]
    kinds = [(one.family, one.layout, one.target) for one in found.values()]
    assert kinds == [
        ("bigram", "table", "org/target"),
        ("draft_model", "llama", None),
        ("eagle3", "specforge", "tiny"),
        ("mtp", "speculators", None),
    ]
    assert not any(one.problem for one in found.values())
    for name, one in found.items():
        folder = zoo / name.removeprefix("zoo:")
        assert one.size_bytes == sum(f.stat().st_size for f in folder.glob("*.safetensors"))
    lengths = [one.accept_length for one in found.values()]
    assert lengths == [None, None, {"code": 2.4, "chat": 1.9}, None]


def test_what_ships_lies_in_the_package() -> None:
    root = zoo_folder()
    assert (root.parent / "catalog.py").is_file()
    assert root.name == "zoo"
    # Whatever this checkout has is whole and can be read.
    assert [one.problem for one in shipped()] == [None] * len(zoo_names())


def test_what_ships_is_small_has_a_card_and_a_recipe() -> None:
    sizes = {}
    for name in zoo_names():
        folder = zoo_folder() / name
        files = list(folder.iterdir())
        sizes[name] = sum(file.stat().st_size for file in files)
        assert {file.suffix for file in files} <= {".safetensors", ".json", ".md"}, name
        card = json.loads((folder / "training.json").read_text("utf-8"))
        recipe = RECIPES / f"{name}.toml"
        assert tomllib.loads(recipe.read_text("utf-8"))["method"] == card["method"]
        assert set(card["suites"]) == {"code", "chat", "translation"}
    assert max(sizes.values()) <= 12_000_000
    assert sum(sizes.values()) <= 32_000_000
