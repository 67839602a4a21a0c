"""A data folder is continued with the target and the settings that made it, and no others."""

import json

import pytest

from specbench.errors import PrerequisiteError, UsageError
from specbench.results.lock import written_alone
from specbench.train.data import folder as module
from specbench.train.data.folder import DataFolder, data_fingerprint

TARGET = {"name": "tiny", "weight_hash": "aa", "quant": "none", "template": "sha256:bb"}
WRITTEN = {"source": "self", "name": "own", "count": 4, "openers": ["Why", "How"]}
LIBRARY = {"source": "library", "name": "lib", "count": 3}
SUITE = {"source": "suite", "name": "s", "suite": "mine.jsonl"}


@pytest.fixture
def claim(tmp_path, recipe):
    """Claim one folder with a changed target, changed sources and changed keys."""

    def use(*sources, target=(), **keys):
        made = data_fingerprint(
            {**TARGET, **dict(target)}, recipe(*(sources or (WRITTEN,)), **keys)
        )
        DataFolder(tmp_path / "data").claim(made)
        return json.loads((tmp_path / "data" / "data.json").read_text())

    return use


def test_what_made_the_data_is_written_on_first_use(claim):
    assert claim(WRITTEN, LIBRARY, SUITE, seed=5) == {
        "schema_version": 1,
        "target": TARGET,
        "data": {
            "temperatures": [0.0, 0.7, 1.0],
            "max_prompt_tokens": 512,
            "max_new_tokens": 256,
            "seed": 5,
        },
        "prompts": {
            "own": {
                "source": "self",
                "openers": ["Why", "How"],
                "system": "",
                "temperature": 0.8,
                "top_p": 0.95,
                "max_tokens": 160,
            },
            "lib": {"source": "library", "kind": "code"},
            "s": {"source": "suite"},
        },
    }


def test_more_of_the_same_is_no_difference(claim):
    first = claim(WRITTEN, SUITE)
    more = {**WRITTEN, "count": 9}
    moved = {**SUITE, "suite": "moved/mine.jsonl", "split": "dev", "count": 2}
    free = {"batch": 7, "exclude": ["x"], "held_out": 0.2, "answers": 2}
    assert claim(more, moved, **free, target={"name": "./tiny"}) == first


def test_new_sources_are_added_and_old_ones_stay(claim):
    claim(WRITTEN)
    both = claim(LIBRARY)
    assert list(both["prompts"]) == ["own", "lib"]
    with pytest.raises(UsageError, match=r"prompts\.own\.top_p"):
        claim({**WRITTEN, "top_p": 0.5})


@pytest.mark.parametrize(
    ("changed", "key", "there", "here"),
    [
        ({"target": {"weight_hash": "cc"}}, "target.weight_hash", '"aa"', '"cc"'),
        ({"target": {"template": "none"}}, "target.template", '"sha256:bb"', '"none"'),
        ({"target": {"more": "x"}}, "target.more", "null", '"x"'),
        ({"seed": 1}, "data.seed", "0", "1"),
        ({"max_new_tokens": 9}, "data.max_new_tokens", "256", "9"),
        ({"max_prompt_tokens": 9}, "data.max_prompt_tokens", "512", "9"),
        ({"temperatures": [0.0]}, "data.temperatures", "[0.0, 0.7, 1.0]", "[0.0]"),
    ],
)
def test_another_target_or_setting_is_refused(claim, tmp_path, changed, key, there, here):
    before = claim()
    with pytest.raises(UsageError) as refused:
        claim(**changed)
    assert refused.value.message == (
        f"{tmp_path / 'data'} holds data made by tiny with {key} = {there}, "
        f"and now {key} = {here} is asked for"
    )
    assert refused.value.hint == "name another data folder, or set the key back"
    assert claim() == before


def test_another_kind_of_source_is_refused(claim):
    claim(WRITTEN)
    with pytest.raises(UsageError, match=r"prompts\.own\.kind = null, and now .* = \"code\""):
        claim({**LIBRARY, "name": "own"})


def test_of_a_long_list_the_first_difference_is_shown(claim):
    openers = [f"opener {i}, which is of some length" for i in range(9)]
    claim({**WRITTEN, "openers": openers})
    with pytest.raises(
        UsageError, match=r"openers\[9\] = null, and now .* = \"one more\" is asked"
    ):
        claim({**WRITTEN, "openers": [*openers, "one more"]})


def test_data_of_unknown_origin_is_refused(claim, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "answers.jsonl").touch()
    claim()
    (tmp_path / "data" / "data.json").unlink()
    (tmp_path / "data" / "answers.jsonl").write_text("{}\n")
    with pytest.raises(UsageError, match=r"holds answers\.jsonl but no data\.json"):
        claim()


@pytest.mark.parametrize("text", ["", "[]", '{"schema_version": 1}', '{"schema_version": 2'])
def test_a_damaged_file_is_refused(claim, tmp_path, text):
    claim()
    (tmp_path / "data" / "data.json").write_text(text)
    with pytest.raises(PrerequisiteError, match=r"data\.json: damaged"):
        claim()


def test_two_claims_at_once(claim, tmp_path, monkeypatch):
    claim(WRITTEN)
    file = tmp_path / "data" / "data.json"
    with written_alone(file):
        with pytest.raises(UsageError, match=r"data\.json is being written by another process"):
            claim(LIBRARY)
        # What is recorded needs no lock: there may be many who read.
        claim(WRITTEN)
    late = []

    def other(path):
        # Between the look and the lock another call adds its sources.
        if not late:
            late.append(path)
            claim(SUITE)
        return written_alone(path)

    monkeypatch.setattr(module, "written_alone", other)
    assert list(claim(LIBRARY)["prompts"]) == ["own", "s", "lib"]


def test_a_folder_that_cannot_be_made(claim, tmp_path):
    (tmp_path / "data").write_text("a file")
    with pytest.raises(UsageError, match="cannot write") as refused:
        claim()
    assert "name another data folder" in refused.value.hint
