"""What a definition may say, and tables and the hub read through datasets."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from specbench.errors import PrerequisiteError, UsageError
from specbench.suites import hub, source
from specbench.suites.definition import read_definition
from specbench.suites.loader import load_suite

GOOD = """schema_version = 1
name = "good"
title = "T"
license = "MIT"
max_new_tokens = 8

[source]
hub = "a/b"

[text]
turn = "{{q}}"
"""


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECBENCH_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        ('name = "good"', 'name = "../good"', "name: '../good'"),
        ('name = "good"', 'name = "other"', "'other' is not 'good'"),
        ('hub = "a/b"', 'hub = "a/b"\nurl = "u"', "exactly one of hub and url"),
        ('hub = "a/b"', "", "exactly one of hub and url"),
        ('turn = "{{q}}"', 'turn = "{{q}}"\n[take]\nturns = "t"', "exactly one of turn, turns"),
        ('turn = "{{q}}"', 'turn = "q"\nprompt = "q"', "text has no prompt"),
        ("max_new_tokens = 8", "max_new_tokens = 8\nlicence = 1", "licence: unknown key"),
        ("[text]", "[text", "Expected"),
    ],
)
def test_wrong_definitions_say_where_and_what(tmp_path, old, new, part):
    path = tmp_path / "good.toml"
    path.write_text(GOOD)
    assert read_definition(path).name == "good"
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(UsageError) as caught:
        read_definition(path)
    assert str(path) in str(caught.value)
    assert part in str(caught.value)


@pytest.mark.parametrize("form", ["csv", "tsv", "json"])
def test_tables_and_lists(tmp_path, form):
    pytest.importorskip("datasets")
    path = tmp_path / f"copy.{form}"
    mark = "\t" if form == "tsv" else ","
    text = f'question{mark}answer\n"2, or\n3?"{mark}A\n'
    path.write_text('[{"question": "2, or\\n3?", "answer": "A"}]' if form == "json" else text)
    hub.fetch("gsm8k", paths=[path])
    (prompt,) = load_suite("gsm8k").prompts
    assert prompt.turns[0].startswith("2, or\n3?\n")
    assert prompt.reference == "A"


def test_parquet(tmp_path):
    datasets = pytest.importorskip("datasets")
    path = tmp_path / "copy.parquet"
    rows = [{"prompt": ["U1", "U2"], "prompt_id": 3, "category": "c", "reference": []}]
    datasets.Dataset.from_list(rows).to_parquet(path)
    hub.fetch("mt-bench", paths=[path])
    (prompt,) = load_suite("mt-bench").prompts
    assert (prompt.id, prompt.turns) == ("3", ("U1", "U2"))


def test_a_file_that_is_no_table(tmp_path):
    pytest.importorskip("datasets")
    path = tmp_path / "copy.parquet"
    path.write_bytes(b"nothing")
    with pytest.raises(UsageError, match=r"copy\.parquet: "):
        hub.fetch("gsm8k", paths=[path])


class Table(list):
    """Rows as datasets gives them, with the addresses they came from."""

    def __init__(self, rows, address):
        super().__init__(rows)
        self.info = SimpleNamespace(download_checksums={address: {}})


COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def datasets(monkeypatch):
    """Stands for the package; remembers what was asked for."""
    asked = []

    class DatasetsError(Exception):
        pass

    def load_dataset(*arguments, **options):
        asked.append((*arguments, options))
        if options["revision"] == "gone":
            raise FileNotFoundError("no such revision\nand more")
        language = arguments[1]
        return Table([{"id": 5, "text": language}], f"hf://datasets/a/b@{COMMIT}/x.parquet")

    package = SimpleNamespace(
        load_dataset=load_dataset,
        exceptions=SimpleNamespace(DatasetsError=DatasetsError),
        asked=asked,
    )
    monkeypatch.setattr(source, "import_module", lambda name: package)
    return package


def test_the_hub_is_asked_for_configuration_split_and_revision(datasets):
    made = hub.fetch("flores-de-en", offline=False)
    common = {"split": "devtest", "revision": "main", "data_files": None}
    assert datasets.asked == [
        ("openlanguagedata/flores_plus", "deu_Latn", common),
        ("openlanguagedata/flores_plus", "eng_Latn", common),
    ]
    suite = load_suite("flores-de-en")
    assert suite.version == f"hub-{COMMIT[:12]}"
    assert suite.prompts[0].reference == "eng_Latn"
    assert COMMIT in (made.folder / "origin.json").read_text()


def test_a_set_that_cannot_be_had(datasets):
    with pytest.raises(PrerequisiteError) as caught:
        hub.fetch("gsm8k", offline=False, revision="gone")
    assert "cannot fetch openai/gsm8k: no such revision\n" in str(caught.value)
    assert "--file FILE" in str(caught.value)
