"""Run folders: written before the run, atomic, never overwritten, read version first."""

from __future__ import annotations

import json
import stat

import pytest

from specbench.core.trace import Finish
from specbench.errors import PrerequisiteError, UsageError
from specbench.results.read import find_run, load_manifest, read_run
from specbench.results.resume import differences, refuse_changes, reopen
from specbench.results.schema import ResultError, manifest_document, read_manifest, upgrade
from specbench.results.store import RunFolder, create_run, probe, write_atomic
from specbench.results.writer import TraceWriter, begin_traces
from tests.results.records import MANIFEST, tick, trace


@pytest.fixture
def folder(tmp_path):
    made = create_run(tmp_path, MANIFEST, "passed", "resolved")
    begin_traces(made, MANIFEST.run)
    return made


def write(folder, *traces):
    writer = TraceWriter(folder)
    for entry in traces:
        writer.trace(entry)
    writer.close()


def test_manifest_comes_back_as_it_was(folder):
    assert load_manifest(folder) == MANIFEST
    assert folder.passed.read_text() == "passed"
    assert folder.experiment.read_text() == "resolved"


def test_a_run_is_never_overwritten(folder, tmp_path):
    with pytest.raises(UsageError, match="exists already"):
        create_run(tmp_path, MANIFEST, "", "")


def test_atomic_writes_leave_old_or_new_and_no_rubbish(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomic(path, "old")
    monkeypatch.setattr("os.replace", lambda *names: (_ for _ in ()).throw(OSError("disk")))
    with pytest.raises(OSError, match="disk"):
        write_atomic(path, "new")
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
    assert stat.S_IMODE(path.stat().st_mode) & 0o444


def test_unwritable_output_names_the_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot write results to"):
        probe(tmp_path / "file" / "results")


def test_records_are_on_disk_when_the_call_returns(folder):
    writer = TraceWriter(folder)
    writer.trace(trace("a"))
    writer.ticks("plain", "unit-a", [tick()])
    found = read_run(folder)
    assert len(found.traces) == 1
    assert found.ticks["plain", "unit-a"] == [tick()]
    writer.close()


def test_torn_last_line_is_dropped_and_cut_off(folder):
    write(folder, trace("a"), trace("b"))
    whole = folder.traces.read_bytes()
    folder.traces.write_bytes(whole[:-20])
    found = read_run(folder)
    assert found.torn
    assert [record.key.item for record in found.traces] == ["a"]
    assert folder.traces.read_bytes() == whole[:-20]
    reopen(folder)
    assert folder.traces.read_bytes() == whole[: whole.rindex(b"\n", 0, -1) + 1]


def test_a_last_line_without_its_end_is_torn_even_if_it_parses(folder):
    write(folder, trace("a"), trace("b"))
    folder.traces.write_bytes(folder.traces.read_bytes()[:-1])
    assert read_run(folder).torn


def test_torn_line_in_the_middle_is_an_error_with_its_place(folder):
    write(folder, trace("a"), trace("b"))
    lines = folder.traces.read_bytes().splitlines(keepends=True)
    folder.traces.write_bytes(lines[0] + lines[1][:50] + b"\n" + lines[2])
    with pytest.raises(ResultError, match="line 2: damaged"):
        read_run(folder)


def test_a_failed_record_may_come_again_a_settled_one_may_not(folder):
    write(folder, trace("a", finish=Finish.OOM, error="oom"), trace("a"))
    found = read_run(folder)
    assert len(found.traces) == 1
    assert found.settled == 1
    write(folder, trace("a"))
    with pytest.raises(ResultError, match="is there twice"):
        read_run(folder)


def test_sessions_of_a_restarted_clock_do_not_overlap(folder):
    write(folder, trace("a", start=5_000))
    writer = TraceWriter(folder)
    writer.resumed()
    writer.trace(trace("b", start=1_000))
    writer.ticks("plain", "unit-b", [tick(1, start=1_000)])
    writer.close()
    found = read_run(folder)
    first, second = found.traces.values()
    assert second.start_ns > first.arrivals.t_ns[-1]
    assert second.arrivals.t_ns[0] - second.start_ns == 10
    moved = found.ticks["plain", "unit-b"][0]
    assert moved.start_ns == second.start_ns
    assert moved.spans[0].start_ns == moved.start_ns
    assert found.resumes == 1
    assert found.next_tick == 2


def test_two_writers_of_one_run_are_refused(folder):
    writer = TraceWriter(folder)
    with pytest.raises(UsageError, match="is being written by another process"):
        TraceWriter(folder)
    writer.close()
    TraceWriter(folder).close()


def test_the_largest_of_all_sessions_counts(folder):
    from specbench.core.arm import ArmMemory

    writer = TraceWriter(folder)
    for peak, state in ((30, None), (20, 7), (None, 5)):
        writer.memory("plain", ArmMemory(1, 0, 1, 0, peak, state))
    writer.close()
    held = read_run(folder).memory["plain"]
    assert (held["peak"], held["draft_state"]) == (30, 7)


def test_runs_are_found_by_path_id_and_last(folder, tmp_path):
    later = create_run(tmp_path, manifest("run-2"), "", "")
    assert find_run(str(folder.path), tmp_path / "elsewhere") == folder
    assert find_run("run-1", tmp_path) == folder
    assert find_run("last", tmp_path) == later
    for name in ("run-3", "last"):
        with pytest.raises(PrerequisiteError, match="no run"):
            find_run(name, tmp_path / "empty")
    with pytest.raises(PrerequisiteError) as none:
        find_run("last", tmp_path / "empty", option="--runs")
    assert none.value.hint == "name the folder of runs with --runs"


def manifest(run):
    from dataclasses import replace

    return replace(MANIFEST, run=run)


def test_newer_files_are_refused_and_older_ones_migrate_step_by_step():
    with pytest.raises(ResultError, match="schema_version 99 is newer"):
        upgrade({"schema_version": 99}, "file")
    with pytest.raises(ResultError, match="no schema_version"):
        upgrade({}, "file")
    steps = {1: lambda d: {**d, "two": 2}, 2: lambda d: {**d, "three": d["two"] + 1}}
    assert upgrade({"schema_version": 1}, "file", steps, 3) == {
        **{"schema_version": 3, "two": 2, "three": 3}
    }
    with pytest.raises(ResultError, match="can no longer be read"):
        upgrade({"schema_version": 1}, "file", {2: steps[2]}, 3)


def test_version_is_read_before_anything_else(folder):
    document = json.loads(folder.manifest.read_text())
    folder.manifest.write_text(json.dumps({"schema_version": 2, "all": "new"}))
    with pytest.raises(ResultError, match="newer"):
        read_run(folder)
    del document["identity"]["target"]
    folder.manifest.write_text(json.dumps(document))
    with pytest.raises(ResultError, match=r"identity\.target"):
        read_run(folder)


@pytest.mark.parametrize("content", ["", "[]", "{", '{"a": 1}'])
def test_foreign_files_get_a_message(folder, content):
    folder.manifest.write_text(content)
    with pytest.raises(ResultError, match=r"manifest\.json"):
        read_run(folder)


def test_missing_traces_get_a_message(folder):
    folder.traces.unlink()
    with pytest.raises(ResultError, match=r"traces\.jsonl: cannot be read"):
        read_run(folder)


def test_changes_are_named_by_key_with_both_values():
    old = {"a": {"b": 1, "c": [1]}, "gone": 1}
    new = {"a": {"b": 2, "c": [1]}, "came": True}
    assert list(differences(old, new)) == [
        ("a.b", "1", "2"),
        ("gone", "1", "(none)"),
        ("came", "(none)", "true"),
    ]
    assert list(differences(old, dict(reversed(old.items())))) == []
    with pytest.raises(UsageError, match=r"a\.b: 1 -> 2"):
        refuse_changes(old, new, "run-1", "settings")


def test_manifest_document_is_strict_json():
    document = manifest_document(MANIFEST)
    assert read_manifest(json.loads(json.dumps(document, allow_nan=False)), "x") == MANIFEST


def test_run_folder_drops_only_what_can_be_rebuilt(folder):
    for path in (folder.items, folder.table, folder.summary_json, folder.summary_md):
        path.write_text("")
    folder.drop_derived()
    assert {path.name for path in folder.path.iterdir()} == {
        *("manifest.json", "experiment.toml", "experiment.passed.toml", "traces.jsonl")
    }
    assert RunFolder(folder.path) == folder
