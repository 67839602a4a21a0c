"""Names of runs that others are held against."""

from datetime import UTC, datetime

import pytest

from specbench.errors import PrerequisiteError, UsageError
from specbench.results.gate.baselines import (
    FILE,
    add_again,
    find_baseline,
    read_baselines,
    set_baseline,
)
from specbench.results.schema import ResultError
from tests.results.compare.made import row, write_run

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture
def out(tmp_path):
    for name in ("one", "two", "three"):
        write_run(tmp_path / "results" / name, [row("p", "a"), row("p", "plain")])
    return tmp_path / "results"


def test_set_and_found(out):
    assert read_baselines(out) == {}
    made = set_baseline("main", "one", out, NOW)
    assert find_baseline("main", out) == made
    assert (made.run, made.since, made.again) == ("one", "2026-01-02T03:04:05Z", ())
    assert len(made.items_sha256) == 64
    set_baseline("gpu-a", str(out / "two"), out, NOW)
    assert list(read_baselines(out)) == ["main", "gpu-a"]


def test_aa_runs_stay_until_it_is_set_anew(out):
    set_baseline("main", "one", out)
    add_again("main", "two", out)
    add_again("main", "three", out)
    assert find_baseline("main", out).again == ("two", "three")
    assert set_baseline("main", "two", out).again == ()


def test_a_changed_file_is_noticed(out):
    set_baseline("main", "one", out, NOW)
    items = out / "one" / "items.csv"
    items.write_text(items.read_text().replace("100000000", "90000000"))
    with pytest.raises(ResultError, match="is not the file that was set on 2026-01-02"):
        find_baseline("main", out)
    items.unlink()
    with pytest.raises(PrerequisiteError, match="is not there"):
        find_baseline("main", out)


def test_unknown(out):
    with pytest.raises(PrerequisiteError, match="no baseline 'main'") as refused:
        find_baseline("main", out)
    assert "there is none yet" in refused.value.hint
    set_baseline("main", "one", out)
    with pytest.raises(PrerequisiteError) as refused:
        find_baseline("mian", out)
    assert "main" in refused.value.hint


@pytest.mark.parametrize("name", ["", "a b", "../x", ".hidden", "a/b"])
def test_names_that_are_none(out, name):
    with pytest.raises(UsageError, match="is no name of a baseline"):
        set_baseline(name, "one", out)
    assert not (out / FILE).exists()


def test_runs_that_cannot_be_one(out, tmp_path):
    write_run(tmp_path / "elsewhere", [row("p", "a")])
    with pytest.raises(UsageError, match="is not in"):
        set_baseline("main", str(tmp_path / "elsewhere"), out)
    (out / "two" / "items.csv").unlink()
    with pytest.raises(UsageError, match="is not there"):
        set_baseline("main", "two", out)
    summary = out / "three" / "summary.json"
    summary.write_text(summary.read_text().replace('"complete": true', '"complete": false'))
    with pytest.raises(UsageError, match="is not complete"):
        set_baseline("main", "three", out)


@pytest.mark.parametrize("text", ["no toml", "schema_version = 2", "[baseline.main]\nrun = 1"])
def test_a_damaged_file(out, text):
    (out / FILE).write_text(text)
    with pytest.raises(ResultError, match="cannot be read"):
        read_baselines(out)
