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
from specbench.cli.matrix import fit
from specbench.decoding.protocols import DrafterInfo, DraftFacts, Lossless, RuleInfo
from specbench.suites.hub import public_sets


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
    names = [row["name"] for row in rows]
    if table == "suites":
        public = [known.name for known in public_sets()]
        names, shown = names[: -len(public)], names[-len(public) :]
        assert shown == public
    assert names == catalog.names(table)


def test_rules_say_whether_they_are_lossless(capsys):
    rows = {row["name"]: row for row in json.loads(listed(capsys, "rules", "--json"))}
    assert rows["rejection"]["lossless"] == "proven"
    assert rows["rejection"]["laws"] == ["one_hot", "dense"]


def test_the_console_has_a_line_of_120_columns_per_rule(capsys):
    header, *lines = listed(capsys, "rules").splitlines()
    assert header.split() == ["name", "lossless", "laws", "tree", "T=0", "parameters"]
    assert [line.split()[0] for line in lines] == catalog.names("rules")
    assert max(map(len, lines)) <= 120
    found = {line.split()[0]: line for line in lines}
    assert "argmax match" in found["rejection"]
    assert "T=0 only" in found["greedy"]
    assert found["typical"].rstrip().endswith("epsilon=0.09, delta=0.3")
    assert found["synthetic"].rstrip().endswith("rates, length, rate")  # none of them is set


def test_other_forms_keep_everything_that_a_rule_declares(capsys):
    rows = {row["name"]: row for row in json.loads(listed(capsys, "rules", "--json"))}
    assert rows["typical"]["parameters"]["epsilon"] == {
        "meaning": "hard threshold on the target probability",
        "default": 0.09,
        "low": 0,
        "high": 1,
        "open_low": True,
        "whole": False,
        "many": False,
    }
    assert rows["blockwise"]["exact_at"] == {"top_k": 1, "minimum": 0}
    assert rows["relaxed"]["stateful"] is True
    for form, start in ("csv", "{},"), ("md", "| {} |"):
        out = listed(capsys, "rules", "--format", form)
        for name, row in rows.items():
            (line,) = (line for line in out.splitlines() if line.startswith(start.format(name)))
            assert all(parameter["meaning"] in line for parameter in row["parameters"].values())


def test_engines_say_which_rules_they_take_and_people_see_none_for_tests(capsys):
    rows = {row["name"]: row for row in json.loads(listed(capsys, "engines", "--json"))}
    assert rows["native"]["rules"] == rows["native"]["drafters"] == "of the catalogue"
    assert rows["transformers_assisted"]["rules"] == ["rejection", "greedy"]
    assert rows["openai"]["rules"] == "as served"
    assert "scripted" in rows
    assert "scripted" not in listed(capsys, "engines")


def test_forms_hold_the_same_cells(capsys):
    parsed = list(csv.reader(io.StringIO(listed(capsys, "rules", "--format", "csv"))))
    markdown = listed(capsys, "rules", "--format", "md").splitlines()
    assert len(markdown) == len(parsed) + 1
    assert markdown[0] == f"| {' | '.join(parsed[0])} |"


def test_matrix_has_every_drafter_and_engine_with_every_rule(capsys):
    listed_rows = json.loads(listed(capsys, "matrix", "--json"))
    rows = {(row.pop("drafter"), row.pop("engine")): row for row in listed_rows}
    assert [drafter for drafter, engine in rows if engine == "native"] == catalog.names("drafters")
    assert all(list(row) == catalog.names("rules") for row in rows.values())
    assert set(rows["none", "native"].values()) == {"yes"}
    (fast,) = (rule for rule, answer in rows["ngram", "native"].items() if answer != "yes")
    assert (fast, rows["ngram", "native"][fast]) == ("flashinfer_chain", "cuda: yes")
    assert rows["eagle2", "native"][fast] == "cuda: with tree=chain"
    assert rows["multi_draft", "native"][fast] == "no: tree"
    # transformers' candidates are judged by its own rule; a server only by what it offers.
    yes = {
        rule for rule, answer in rows["ngram", "transformers_assisted"].items() if answer == "yes"
    }
    assert yes == {"rejection", "greedy"}
    assert rows["ngram", "vllm"]["relaxed"] == "no: not offered"
    assert rows["draft_model", "vllm"]["block"] == "yes"
    assert ("layer_skip", "vllm") not in rows
    assert not any(engine in ("openai", "scripted") for _, engine in rows)


def test_the_console_matrix_fits_a_screen_and_explains_its_words(capsys):
    assert call(["list", "matrix"]) == 0
    shown = capsys.readouterr()
    assert max(map(len, shown.out.splitlines())) <= 190
    assert "opt:" in shown.err


def drafter(law, trials, tree=False, by=()):
    return DrafterInfo("d", "", "", DraftFacts(law, trials, tree), variants=by)


def rule(laws, tree=False, trials=()):
    return RuleInfo("r", "", Lossless.PROVEN, "processed", laws, tree, "", trials)


BOTH = ("one_hot", "dense")
GREEDY_OPTION = (({"sampling": "greedy"}, DraftFacts("one_hot", "one_hot")),)
AS_CHAIN = (({"tree": "chain", "sampling": "greedy"}, DraftFacts("one_hot", "one_hot")),)


@pytest.mark.parametrize(
    ("drafts", "judges", "answer"),
    [
        (drafter("dense", "iid"), rule(BOTH), "yes"),
        (drafter("none", ""), rule(("dense",), trials=("iid",)), "yes"),
        (drafter("dense", "iid"), rule(("one_hot",)), "no: law dense"),
        (drafter("dense", "iid", by=GREEDY_OPTION), rule(("one_hot",)), "with sampling=greedy"),
        (drafter("dense", "iid", by=GREEDY_OPTION), rule(BOTH), "yes"),
        (drafter("dense", "iid", True), rule(BOTH), "no: tree"),
        (
            drafter("dense", "without_replacement", True, by=AS_CHAIN),
            rule(("one_hot",)),
            "with tree=chain, sampling=greedy",
        ),
        (drafter("dense", "iid"), rule(BOTH, trials=("iid",)), "yes"),
        (drafter("one_hot", "one_hot"), rule(BOTH, trials=("iid",)), "no: trials one_hot"),
        (
            drafter("dense", "independent", True),
            rule(BOTH, True, ("iid",)),
            "no: trials independent",
        ),
        (drafter("dense", "iid", True), rule(BOTH, True, ("iid",)), "yes"),
        (
            drafter("one_hot", "deterministic_set", True),
            rule(BOTH, True, ("iid",)),
            "no: trials deterministic_set",
        ),
    ],
)
def test_drafts_and_rules_fit_by_law_shape_and_trials(drafts, judges, answer):
    assert fit(drafts, judges) == answer


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
