"""`specbench laws`: what is printed, written and returned."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from xml.dom import minidom

import pytest

from specbench.cli.main import call

SAMPLERS = Path(__file__).resolve().parents[1] / "laws"


@pytest.fixture
def folder(monkeypatch):
    """The folder of the test's samplers as current directory."""
    monkeypatch.chdir(SAMPLERS)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    sys.modules.pop("samplers", None)


def test_a_right_sampler(folder, capsys):
    assert call(["laws", "samplers:rejection", "--json"]) == 0
    captured = capsys.readouterr()
    rows = json.loads(captured.out)
    assert {row["status"] for row in rows} == {"passed", "not applicable"}
    assert {row["check"] for row in rows} == {"law", "edge", "mutant"}
    assert all(row["off"] < 1e-6 for row in rows if row["check"] == "law")
    assert captured.err == "samplers:rejection: 26 passed, 1 not applicable\n"


def test_a_sampler_that_is_off(folder, capsys, tmp_path):
    path = tmp_path / "laws.xml"
    assert call(["laws", "samplers:lenient", "--junit", str(path)]) == 4
    captured = capsys.readouterr()
    assert "FAILED" in captured.out
    assert "three tokens, K=3" in captured.err
    suite = minidom.parse(str(path)).getElementsByTagName("testsuite")[0]
    assert int(suite.getAttribute("failures")) > 10


def test_samplers_with_numbers_of_their_own(folder, capsys):
    arguments = ["--samples", "20000", "--json"]
    assert call(["laws", "samplers:counts", "--adapter", "counts", *arguments]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert all(row["detectable"] > 0 for row in rows if row["status"] == "passed")
    generator = ["laws", "samplers:lenient_from_generator", "--adapter", "generator"]
    assert call([*generator, *arguments]) == 4


def test_too_few_samples_are_inconclusive(folder, capsys):
    arguments = ["laws", "samplers:counts", "--adapter", "counts", "--samples", "20"]
    assert call(arguments) == 5
    captured = capsys.readouterr()
    assert "too few" in captured.out
    assert "raise --samples" in captured.err


def test_rules_of_the_catalogue(capsys):
    assert call(["laws", "--rule", "greedy", "--rule", "synthetic", "--format", "md"]) == 0
    captured = capsys.readouterr()
    assert "| greedy | law | temperature 0, three tokens, K=3 | passed |" in captured.out
    assert "| synthetic | law | any | not applicable |" in captured.out
    assert captured.err.splitlines()[-1] == "synthetic: 1 not applicable"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["nowhere:verify"], 3, "run where its file lies"),
        (["verify"], 2, "write module:function"),
        (["samplers:rejecton"], 2, "did you mean rejection"),
        (["--rule", "rejecton"], 2, "did you mean rejection"),
        (["samplers:rejection", "--rule", "block"], 2, "one of them"),
        (["samplers:rejection", "--samples", "9"], 2, "this check is exact"),
        (["--rule", "block", "--samples", "9"], 2, "this check is exact"),
        (["--adapter", "counts"], 2, "MODULE:FUNCTION"),
        (["samplers:rejection", "--device", "toaster"], 2, "write cpu or cuda"),
        (["samplers:rejection", "--junit", "no/such/folder.xml"], 2, "no such folder"),
        (["samplers:rejection", "--adapter", "numbers"], 2, "numbers"),
    ],
)
def test_wrong_usage(folder, capsys, arguments, code, words):
    assert call(["laws", *arguments]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err


def test_without_torch_it_says_what_to_install():
    program = (
        "import sys\n"
        "sys.modules['torch'] = None\n"  # makes `import torch` raise, as where it is not installed
        "from specbench.cli.main import call\n"
        "sys.exit(call(['laws', '--rule', 'rejection']))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 3
    assert "specbench-llm[native]" in done.stderr
