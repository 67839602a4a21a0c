"""Folders with suite.toml and prompts.jsonl: what is read, and how wrong ones are named."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest

from specbench import catalog
from specbench.core.suite import Prompt, Scoring
from specbench.errors import PrerequisiteError, UsageError
from specbench.suites import definition, loader
from specbench.suites.loader import load_suite
from tests.suites.conftest import row

TWO = [row("a", turns=["é"]), row("b", turns=["日"], tags=["t"])]
# printf '{"category":"x","id":"a","turns":["é"]}\n
#         {"category":"x","id":"b","tags":["t"],"turns":["日"]}\n' | sha256sum
TWO_DIGEST = "sha256:e6917d971659f08aed4198fe7202bb485b5f9fe7d3893320a8a81e6503de079d"


def problem(path, **options) -> str:
    with pytest.raises(UsageError) as caught:
        load_suite(path, **options)
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_all_fields(folder):
    full = row(
        "b",
        "y",
        ["U1", "U2"],
        system="S",
        recorded=["A1"],
        reference="R",
        scoring={"kind": "python", "entry_point": "f", "tests": "assert f(1) == 2"},
        tags=["t"],
    )
    suite = load_suite(folder([row("a"), full]))
    assert (suite.name, suite.version, suite.title) == ("demo", "1.0.0", "Demo")
    assert (suite.licence, suite.max_new_tokens) == ("CC0-1.0", 32)
    assert suite.categories == {"x": "the letter x", "y": "the letter y"}
    assert suite.prompts == (
        Prompt(id="a", category="x", split="dev", turns=("U",)),
        Prompt(
            id="b",
            category="y",
            split="test",
            turns=("U1", "U2"),
            system="S",
            recorded=("A1",),
            reference="R",
            scoring=Scoring(kind="python", entry_point="f", tests="assert f(1) == 2"),
            tags=("t",),
        ),
    )
    assert suite.turns == 3
    assert suite.skipped == ()


@pytest.mark.parametrize(
    ("scoring", "expected"),
    [
        ({"kind": "json", "required": ["a"]}, Scoring(kind="json", required=("a",))),
        (
            {
                "kind": "translation",
                "source_language": "de",
                "target_language": "en",
                "source": "Ja",
            },
            Scoring("translation", source_language="de", target_language="en", source="Ja"),
        ),
    ],
)
def test_scoring_kinds(folder, scoring, expected):
    assert load_suite(folder([row(scoring=scoring)])).prompts[0].scoring == expected


@pytest.mark.parametrize(
    ("bad", "parts"),
    [
        (row("Bad Id"), ["id: 'Bad Id'", "write lower-case letters"]),
        (row(category="z"), ["category: 'z'", "unknown category", "known: x, y"]),
        (row(turns=[]), ["turns: []", "at least one string"]),
        (row(turns=[7]), ["turns.0: 7", "at least one string"]),
        (row(promt="U"), ["promt: unknown key", "'U'", "remove it"]),
        ({"id": "a", "category": "x"}, ["turns: missing", "at least one string"]),
        (
            row(turns=["1", "2", "3"], recorded=["A"]),
            ["recorded: ['A']", "1 recorded answers for 3 turns", "one less"],
        ),
        (row(recorded=["1", "2"]), ["recorded: ['1', '2']", "2 recorded answers for 1 turns"]),
        (row(tags="t"), ["tags: 't'", "a list of strings"]),
        (row(scoring={"kind": "bleu"}), ["scoring", "bleu", '"translation"']),
        (row(scoring={"kind": "json", "required": []}), ["scoring.required: []", "one key"]),
        (row(scoring={"kind": "python", "tests": "t"}), ["scoring.entry_point: missing"]),
    ],
)
def test_wrong_rows_name_line_key_value_and_remedy(folder, bad, parts):
    path = folder([row("ok"), bad])
    message = problem(path)
    for part in [f"{path / 'prompts.jsonl'}, line 2", *parts]:
        assert part in message


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        (b'{"id": ', ["not JSON", "column 8", "one JSON object per line"]),
        (b"[1, 2]", ["[1, 2] is not an object"]),
        (b'{"id": "a", "id": "b"}', ["id: the key is written twice"]),
        (b'{"id": NaN}', ["NaN is not JSON"]),
        (b'{"id": "\\ud83c"}', ["half of a surrogate pair"]),
        (b"[" * 100_000, ["not JSON"]),
    ],
)
def test_lines_that_are_no_rows(folder, line, parts):
    message = problem(folder([], prompts=json.dumps(row()).encode() + b"\n" + line))
    for part in ["line 2", *parts]:
        assert part in message


def test_an_id_is_unique(folder):
    message = problem(folder([row("a"), row("b"), row("a")]))
    assert "line 3: id: 'a' is also on line 1" in message


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ("schema_version = 1\n", "", ["schema_version is missing", "write schema_version = 1"]),
        ("schema_version = 1", 'schema_version = "1"', ["'1' is not a whole number"]),
        ("schema_version = 1", "schema_version = 0", ["schema_version: 0"]),
        ("max_new_tokens = 32", "max_new_tokens = 0", ["defaults.max_new_tokens: 0", "at least 1"]),
        ("max_new_tokens = 32", 'max_new_tokens = "32"', ["defaults.max_new_tokens: '32'"]),
        ('name = "demo"', 'name = "De mo"', ["name: 'De mo'", "lower-case"]),
        ('title = "Demo"', 'titel = "Demo"', ["title: missing", "titel: unknown key"]),
        ('title = "Demo"', "title = Demo", ["line 4"]),
        ("sha256:", "md5:", ["digest: 'md5:", '"sha256:" and 64']),
    ],
)
def test_wrong_suite_files(folder, old, new, parts):
    path = folder([row()], head=[(old, new)])
    message = problem(path)
    for part in [str(path / "suite.toml"), *parts]:
        assert part in message


def test_a_newer_schema_is_refused_before_its_keys_are_looked_at(folder):
    head = [("schema_version = 1", "schema_version = 2\nnew_key = 1"), ('name = "demo"\n', "")]
    message = problem(folder([row()], head=head))
    assert "schema_version = 2 is newer" in message
    assert "upgrade specbench" in message
    assert "new_key" not in message


def test_changed_prompts_do_not_match_their_digest(folder):
    message = problem(folder([row("a"), row("b")], digest="sha256:" + 64 * "0"))
    assert f"digest: 'sha256:{64 * '0'}'" in message
    # what to write instead, which then loads
    right = message.split('write digest = "')[1].split('"')[0]
    assert load_suite(folder([row("a"), row("b")], digest=right)).digest == right


def test_a_file_that_does_not_exist_is_called_that(tmp_path):
    for name in ("nofile.jsonl", str(tmp_path / "nofile.jsonl")):
        assert f"no suite {name!r}: this file does not exist" in problem(name)
    assert "'./nofolder': this folder does not exist" in problem("./nofolder")
    (tmp_path / "there.txt").write_text("U")
    assert "not a .jsonl file" in problem(tmp_path / "there.txt")


def test_missing_files(folder, tmp_path):
    path = folder([row()])
    (path / "prompts.jsonl").unlink()
    assert "prompts.jsonl" in problem(path)
    assert "holds no prompts" in problem(folder([]))


# G1


FORMS = {
    "plain": lambda lines: b"\n".join(lines),
    "bom": lambda lines: b"\xef\xbb\xbf" + b"\n".join(lines) + b"\n",
    "crlf": lambda lines: b"\r\n".join(lines) + b"\r\n",
    "all": lambda lines: b"\xef\xbb\xbf\r\n" + b"\r\n \r\n".join(lines) + b"\r\n\r\n",
}


@pytest.mark.parametrize("form", FORMS)
def test_g1_bytes_may_differ_the_digest_does_not(folder, form):
    lines = [json.dumps(r, ensure_ascii=False).encode() for r in TWO]
    path = folder([], digest=TWO_DIGEST, prompts=FORMS[form](lines))
    suite = load_suite(path)
    assert suite.digest == TWO_DIGEST
    assert [p.turns for p in suite.prompts] == [("é",), ("日",)]


def test_g1_the_digest_sees_through_escapes_and_key_order(folder):
    lines = b'{"turns":["\\u00e9"],"id":"a","category":"x"}\n'
    lines += b'{"tags": ["t"], "category": "x", "turns": ["\\u65e5"], "id": "b"}\n'
    assert load_suite(folder([], digest=TWO_DIGEST, prompts=lines)).digest == TWO_DIGEST


def test_g1_suite_toml_with_bom_and_crlf(folder):
    path = folder([row()])
    toml = path / "suite.toml"
    toml.write_bytes(b"\xef\xbb\xbf" + toml.read_bytes().replace(b"\n", b"\r\n"))
    assert load_suite(path).name == "demo"


def test_g1_only_lf_ends_a_line(folder):
    # U+2028 and U+0085 are line ends for str.splitlines, not for JSON lines
    suite = load_suite(folder([row(turns=["a\u2028b\u0085c"])]))
    assert suite.prompts[0].turns == ("a\u2028b\u0085c",)


def test_g1_invalid_utf8_names_file_line_and_byte(folder):
    # BOM 3 bytes, {"id":1} 8, CRLF 2: line 2 starts at 13; {"p":" are 6 more, so byte 19
    data = b'\xef\xbb\xbf{"id":1}\r\n{"p":"\xe9"}\r\n'
    path = folder([], prompts=data)
    message = problem(path, strict=False)
    assert f"{path / 'prompts.jsonl'}, line 2: byte 19 (0xe9) is not UTF-8" in message
    toml = path / "suite.toml"
    toml.write_bytes(b"\xef\xbb\xbf# a\n# \xe9\n")
    # BOM 3, "# a\n" 4, "# " 2
    assert f"{toml}, line 2: byte 9 (0xe9) is not UTF-8" in problem(path)


def test_g1_in_a_c_locale(folder):
    path = folder(TWO)
    bare = path / "bare.jsonl"
    bare.write_bytes('\ufeff{"turns":["é"]}\r\n{"turns":["日"]}\r\n'.encode())
    program = (
        "import sys\n"
        "from specbench.suites.loader import load_suite\n"
        "for path in sys.argv[1:]:\n"
        "    print(ascii([p.turns[0] for p in load_suite(path).prompts]))\n"
    )
    environment = os.environ | {"PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", program, path, bare],
        env=environment | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == 2 * [r"['\xe9', '\u65e5']"]


# G3


def test_g3_bad_rows_are_skipped_with_reason_and_count(folder):
    rows = [row("a"), row("B"), row("c"), row("d", "z")]
    path = folder(rows)
    suite = load_suite(path, strict=False, max_bad=2)
    assert [p.id for p in suite.prompts] == ["a", "c"]
    assert len(suite.skipped) == 2
    assert "line 2: id: 'B'" in suite.skipped[0]
    assert "line 4: category: 'z'" in suite.skipped[1]
    # the digest names what was loaded
    assert suite.digest == load_suite(folder([row("a"), row("c")])).digest


def test_g3_above_the_limit_all_reasons_are_listed(folder):
    message = problem(folder([row("a"), row("B"), row("C")]), strict=False, max_bad=1)
    assert "2 bad rows, allowed are 1" in message
    assert "line 2: id: 'B'" in message
    assert "line 3: id: 'C'" in message


def test_g3_strict_fails_on_the_first(folder):
    message = problem(folder([row("a"), row("B"), row("C")]), strict=True, max_bad=9)
    assert "line 2" in message
    assert "line 3" not in message


def test_g3_only_bad_rows_are_no_suite(folder):
    assert "holds no prompts" in problem(folder([row("B")]), strict=False, max_bad=1)


# names and places


@pytest.fixture
def catalogued(folder, monkeypatch):
    """The demo suite under the name ``demo`` in a source checkout and nothing installed."""

    def place(rows, value="demo"):
        path = folder(rows)
        package = path.parent / "specbench"
        package.mkdir(exist_ok=True)
        (path.parent / "pyproject.toml").touch()
        monkeypatch.setitem(loader.SUITES, "demo", value)
        monkeypatch.setattr(definition, "files", lambda module: package)
        return path

    return place


def test_a_name_is_found_in_a_checkout(catalogued):
    path = catalogued([row()])
    assert load_suite("demo").name == "demo"
    assert loader.locate("demo") == path


def test_package_data_comes_first(catalogued):
    path = catalogued([row()])
    installed = path.parent / "specbench" / "data" / "demo"
    installed.mkdir(parents=True)
    for file in path.iterdir():
        (installed / file.name).write_bytes(file.read_bytes())
    assert loader.locate("demo") == installed


def test_foreign_packages_beside_an_installed_one_are_not_suites(catalogued):
    path = catalogued([row()])
    (path.parent / "pyproject.toml").unlink()
    with pytest.raises(PrerequisiteError, match="not installed"):
        load_suite("demo")


def test_named_suites_are_strict(catalogued):
    catalogued([row("a"), row("B")])
    assert "line 2" in problem("demo", strict=False, max_bad=5)


def test_a_third_party_names_a_folder_below_its_package(folder, monkeypatch):
    path = folder([row()])
    points = [EntryPoint("theirs", "their_package:demo", "specbench.suites")]
    monkeypatch.setattr(catalog, "entry_points", lambda group: points)
    monkeypatch.setattr(loader, "files", {"their_package": path.parent}.__getitem__)
    assert loader.locate("theirs") == path
    assert load_suite("theirs").name == "demo"


def test_unknown_names_show_the_nearest():
    message = problem("cod")
    assert "no suite 'cod'" in message
    assert "did you mean code" in message


def test_a_suite_cannot_leave_its_folder(catalogued, folder, tmp_path):
    catalogued([row()], value="../demo")
    assert "leaves" in problem("demo")
    outside = tmp_path / "outside.jsonl"
    path = folder([row()])
    (path / "prompts.jsonl").rename(outside)
    (path / "prompts.jsonl").symlink_to(outside)
    assert "'prompts.jsonl' leaves" in problem(path)


def test_g6_loading_needs_no_network(folder, monkeypatch):
    def refuse(*_):
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    assert load_suite(folder([row()])).name == "demo"
