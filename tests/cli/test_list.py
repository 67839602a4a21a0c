"""Lists for people and programs, with and without torch."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys

import pytest

from specbench import catalog
from specbench.cli.list import LISTS, NEEDS_TORCH
from specbench.cli.main import call


def listed(capsys, *arguments):
    assert call(["list", *arguments]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("what", LISTS)
@pytest.mark.parametrize("form", ["console", "md", "csv", "json"])
def test_every_list_in_every_form(what, form, capsys):
    out = listed(capsys, what, "--format", form)
    assert out.strip()
    assert "\x1b" not in out


@pytest.mark.parametrize("table", ["drafters", "rules", "engines", "suites"])
def test_lists_are_the_catalogue(table, capsys):
    rows = json.loads(listed(capsys, table, "--json"))
    assert [row["name"] for row in rows] == catalog.names(table)


def test_rules_say_whether_they_are_lossless(capsys):
    rows = {row["name"]: row for row in json.loads(listed(capsys, "rules", "--json"))}
    assert rows["rejection"]["lossless"] == "proven"
    assert rows["rejection"]["laws"] == ["one_hot", "dense"]


def test_forms_hold_the_same_cells(capsys):
    parsed = list(csv.reader(io.StringIO(listed(capsys, "rules", "--format", "csv"))))
    markdown = listed(capsys, "rules", "--format", "md").splitlines()
    assert len(markdown) == len(parsed) + 1
    assert markdown[0] == f"| {' | '.join(parsed[0])} |"


def test_matrix_has_every_pair_and_plain_decoding_takes_every_rule(capsys):
    rows = {row.pop("drafter"): row for row in json.loads(listed(capsys, "matrix", "--json"))}
    assert list(rows) == catalog.names("drafters")
    assert all(list(row) == catalog.names("rules") for row in rows.values())
    assert set(rows["none"].values()) == {"yes"}
    assert set(rows["ngram"].values()) == {"yes"}


def test_names_are_listed_without_torch():
    program = (
        "import sys\n"
        "sys.modules['torch'] = None\n"  # makes `import torch` raise, as where it is not installed
        "from specbench.cli.main import call\n"
        "sys.exit(call(['list', 'drafters', '--json']))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert [row["name"] for row in rows] == list(catalog.DRAFTERS)
    assert NEEDS_TORCH in [row.get("note") for row in rows]


def test_a_broken_plug_in_does_not_hide_the_others(monkeypatch, capsys):
    monkeypatch.setitem(catalog.RULES, "broken", "specbench_no_such_package:RULE")
    rows = {row["name"]: row for row in json.loads(listed(capsys, "rules", "--json"))}
    assert "specbench_no_such_package" in rows["broken"]["note"]
    assert "lossless" in rows["greedy"]
    assert "specbench_no_such_package" in listed(capsys, "matrix")


def test_an_unknown_list_names_the_known_ones(capsys):
    assert call(["list", "draftres"]) == 2
    assert "drafters" in capsys.readouterr().err
