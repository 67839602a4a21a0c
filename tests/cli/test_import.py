"""`specbench import`: what is written and printed, bad files; nothing ranks or compares it."""

from __future__ import annotations

import hashlib
import json

import pytest

from specbench.cli.main import call
from tests.cli.scripted_runs import NGRAM, Bench
from tests.results.foreign.written import SPECFORGE, VLLM, answer

MARK = "IMPORTED, not measured by specbench"


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """A folder with one measured run and one import."""
    folder = tmp_path_factory.mktemp("imports")
    with pytest.MonkeyPatch.context() as patch:
        bench = Bench(folder, patch)
        options = "accepted = {ngram = [3, 2, 3]}\nstep_ms = {ngram = 12}"
        assert bench.run(bench.write(items=5, arms=NGRAM, options=options)) == 0
    (folder / "vllm.json").write_text(json.dumps(VLLM))
    assert (
        call(["import", str(folder / "vllm.json"), "--arm", "eagle3", "--out", str(bench.out)]) == 0
    )
    return bench.out


def run_of(out):
    return next(path for path in out.iterdir() if path.name != "imported")


def test_what_is_written(out):
    path = out / "imported" / "vllm" / "imported.json"
    written = json.loads(path.read_text(), parse_constant=lambda word: pytest.fail(word))
    source = (out.parent / "vllm.json").read_bytes()
    assert written["sha256"] == hashlib.sha256(source).hexdigest()
    assert (written["schema_version"], written["format"], written["k"]) == (1, "vllm-bench", 3)
    assert written["measured_by_specbench"] is False
    assert written["rows"][0]["definition"] == "accept_length_drafted@1"
    assert {"field", "text", "metric", "how"} == set(written["meanings"][0])


@pytest.mark.parametrize("name", ["vllm", "imported/vllm"])
def test_show_prints_it_again(out, capsys, name):
    assert call(["show", name, "--out", str(out), "--format", "md"]) == 0
    shown = capsys.readouterr().out
    assert f"# {MARK}: vllm, vllm bench serve, vllm.json" in shown
    assert "| eagle3 | - | accept_length_drafted@1 | value | 2.5 | tokens/step |" in shown
    assert "- spec_decode_acceptance_length: 1 + accepted / drafts" in shown


def test_show_as_json_is_the_document(out, capsys):
    assert call(["show", "vllm", "--out", str(out), "--json"]) == 0
    path = out / "imported" / "vllm" / "imported.json"
    assert json.loads(capsys.readouterr().out) == json.loads(path.read_text())


@pytest.mark.parametrize(
    "command",
    [
        ["compare", "vllm", "RUN"],
        ["compare", "RUN", "vllm:eagle3"],
        ["gate", "vllm", "--base", "RUN"],
        ["show", "RUN", "vllm"],
        ["rescore", "vllm"],
    ],
)
def test_nothing_holds_it_against_a_run(out, capsys, command):
    words = [str(run_of(out)) if word == "RUN" else word for word in command]
    assert call([*words, "--out", str(out)]) == 6
    assert "holds imported figures, which specbench did not measure" in capsys.readouterr().err


def test_last_is_a_run(out, capsys):
    assert call(["show", "last", "--out", str(out)]) == 0
    assert MARK not in capsys.readouterr().out


@pytest.mark.parametrize("form", ["md", "html"])
def test_the_leaderboard_has_a_block_without_ranks(out, capsys, form):
    assert call(["leaderboard", str(out), "--format", form]) == 0
    ranked, _, block = capsys.readouterr().out.partition("Imported, not ranked")
    assert "eagle3" not in ranked
    assert "accept_length_drafted@1" in block
    assert "specbench did not measure" in block


def test_records_of_the_leaderboard_have_no_rank_where_imported(out, capsys):
    assert call(["leaderboard", str(out), "--format", "json", "--verify"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["rank"] for row in rows if row["arm"] == "ngram"] == [1]
    imported = [row for row in rows if row["arm"] == "eagle3"]
    assert {(row["block"], row["rank"]) for row in imported} == {("imported, not ranked", None)}
    assert call(["leaderboard", str(out), "--format", "latex"]) == 0
    assert "eagle3" not in capsys.readouterr().out


def test_a_damaged_import_is_named(out, capsys, tmp_path):
    folder = tmp_path / "imported" / "torn"
    folder.mkdir(parents=True)
    (folder / "imported.json").write_text('{"schema_version": 1, "name": "torn"')
    assert call(["leaderboard", str(tmp_path)]) == 0
    assert "## Not read" in capsys.readouterr().out
    assert call(["show", "torn", "--out", str(tmp_path)]) == 2


def test_several_files_and_their_names(tmp_path, capsys):
    (tmp_path / "a b.json").write_text(json.dumps(VLLM))
    (tmp_path / "forge.json").write_text(json.dumps(SPECFORGE))
    files = [str(tmp_path / name) for name in ("a b.json", "forge.json")]
    assert call(["import", *files, "--out", str(tmp_path)]) == 0
    assert capsys.readouterr().out.count(MARK) == 2
    assert sorted(path.name for path in (tmp_path / "imported").iterdir()) == ["a-b", "forge"]
    assert call(["import", *files, "--name", "x", "--out", str(tmp_path)]) == 2
    assert call(["import", files[1], "--out", str(tmp_path)]) == 2
    assert "forge exists already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "options", "code", "message"),
    [
        (b"", [], 2, "file.json: empty"),
        (b" \n", [], 2, "file.json: empty"),
        (json.dumps(VLLM).encode()[:-9], [], 2, "not JSON"),
        (json.dumps(VLLM, indent=1).encode()[:-9], [], 2, "not JSON"),
        (json.dumps(answer()).encode() + b'\n{"question_id": 2,', [], 2, "line 2: not JSON"),
        (json.dumps(VLLM | {"mean_ttft_ms": float("nan")}).encode(), [], 2, "NaN is no number"),
        (b"[1, 2]", [], 2, "not a JSON object"),
        (b'{"a": "\xff"}', [], 2, "byte 7 is not UTF-8"),
        (b'{"a": 1}', [], 2, "of no format that is known here (its keys begin with a)"),
        (json.dumps(VLLM).encode(), ["--from", "spec-bench"], 2, "question_id is missing"),
        (json.dumps(VLLM).encode(), ["--from", "vlm"], 2, "unknown format 'vlm'"),
        (json.dumps(VLLM).encode(), ["-k", "5"], 2, "has 3 draft positions, not 5"),
        (
            json.dumps(VLLM).encode(),
            ["--method", "eagle"],
            2,
            "--method is for files of",
        ),
        (json.dumps(VLLM).encode(), ["--name", "../x"], 2, "is no name of an import"),
        (json.dumps(answer()).encode(), [], 2, "--method NAME"),
        (None, [], 3, "cannot read"),
    ],
)
def test_bad_input(tmp_path, capsys, content, options, code, message):
    path = tmp_path / "file.json"
    if content is not None:
        path.write_bytes(content)
    assert call(["import", str(path), *options, "--out", str(tmp_path)]) == code
    assert message in capsys.readouterr().err
    assert not (tmp_path / "imported").exists()


def test_a_byte_order_mark_and_windows_lines_are_read(tmp_path, capsys):
    lines = "\r\n".join([json.dumps(answer(1)), "", json.dumps(answer(2)), ""])
    (tmp_path / "a.jsonl").write_bytes(b"\xef\xbb\xbf" + lines.encode())
    command = ["import", str(tmp_path / "a.jsonl"), "--method", "eagle", "--suite", "spec-bench"]
    assert call([*command, "--out", str(tmp_path)]) == 0
    assert "questions 2" in capsys.readouterr().out
