"""Published values beside a run: reproduced, off and why, or not measured."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from specbench.cli.main import call
from specbench.core.quantity import Quantity, nothing
from specbench.errors import PrerequisiteError, UsageError
from specbench.experiment.load import Flags, builtin_names, load_experiment
from specbench.experiment.prepare import prepare
from specbench.results.anchors import Anchor, check_anchors
from specbench.results.cells import Cell, MeasuredCell
from tests.cli.scripted_runs import NGRAM, Bench

OPTIONS = "accepted = {ngram = [2, 1, 0]}"


def anchor(metric, value, **more):
    """An [[anchor]] table of the arm ngram."""
    fields = {"arm": "ngram", "metric": metric, "value": value, "tolerance": 0.05, "source": "S"}
    lines = [f"{key} = {json.dumps(value)}" for key, value in (fields | more).items()]
    setup = '\n[anchor.setup]\nk = 5\nengine = "scripted"\n' if metric == "accept_pos" else ""
    return "\n[[anchor]]\n" + "\n".join(lines) + setup + "\n"


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    """A run whose anchors are made from its own steps, read from the traces of a first one."""
    with pytest.MonkeyPatch.context() as patch:
        made = Bench(tmp_path_factory.mktemp("anchors"), patch)
        assert made.run(made.write(items=4, arms=NGRAM, options=OPTIONS)) == 0
        steps = [r["steps"] for r in made.records() if r["arm"] == "ngram"]
        rows = [
            row
            for step in steps
            for row in zip(step["committed"], step["accepted"], step["verified"], strict=True)
        ]
        made.length = sum(row[0] for row in rows) / len(rows)
        made.accepted = sum(row[1] for row in rows) / len(rows)
        drafted = [row for row in rows if row[2]]
        made.first = sum(row[1] > 0 for row in drafted) / len(drafted)
        arms = "".join(
            [
                NGRAM,
                anchor("accept_length", round(1.03 * made.length, 4)),
                anchor("accept_length", round(made.accepted, 4)),
                anchor("accept_pos", round(2 * made.first, 4), position=1),
                anchor("accept_pos", 0.5, position=9),
                anchor("accept_length", 2.0, temperature=0.7),
            ]
        )
        path = made.write(items=4, arms=arms, options=OPTIONS)
        made.experiment, made.folder_of_run = path, made.made(path)
        yield made


def checks(bench):
    return json.loads((bench.folder_of_run / "summary.json").read_text())["anchors"]


def test_verdicts(bench):
    found = checks(bench)
    assert [check["reproduced"] for check in found] == [True, False, False, None, None]
    assert found[0]["off"] == pytest.approx(1 / 1.03 - 1, abs=1e-4)
    assert found[2]["off"] == pytest.approx(-0.5, abs=1e-4)
    assert found[0]["causes"] == found[0]["differs"] == []


def test_a_value_without_the_bonus_token_is_recognised(bench):
    causes = checks(bench)[1]["causes"]
    expected = f"accepted_mean, without the recovered or bonus token, is {bench.accepted:.3g} here"
    assert any(expected in cause for cause in causes)


def test_settings_that_differ_are_named_and_others_are_not(bench):
    assert checks(bench)[2]["differs"] == ["k is 3 here and 5 there"]


def test_what_was_not_measured_says_why(bench):
    deep, warm = checks(bench)[3:]
    assert deep["measured"]["reason"] == "no draft was so long: accept_pos rate_9"
    assert warm["measured"]["reason"] == "this run has no cell prompts, temperature 0.7"


@pytest.mark.parametrize("form", ["console", "md"])
def test_show_says_it(bench, capsys, form):
    assert call(["show", str(bench.folder_of_run), "--format", form]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "anchor reproduced: accept_length of ngram, prompts, T = 0: " in shown
    assert "± 5 % in S" in shown
    assert "anchor off by -50.0 %: accept_pos 1 of ngram" in shown
    assert "likely causes: k is 3 here and 5 there; not compared, because the anchor" in shown
    assert "anchor not measured: accept_pos 9 of ngram" in shown


def test_manifest_and_experiment_hold_them_and_rescoring_changes_nothing(bench):
    manifest = json.loads((bench.folder_of_run / "manifest.json").read_text())
    assert [one["metric"] for one in manifest["experiment"]["anchor"]][:3] == [
        *("accept_length", "accept_length", "accept_pos")
    ]
    before = (bench.folder_of_run / "summary.json").read_bytes()
    assert call(["rescore", str(bench.folder_of_run)]) == 0
    assert (bench.folder_of_run / "summary.json").read_bytes() == before


def test_a_run_without_anchors_has_no_word_of_them(bench):
    other = next(path for path in bench.out.iterdir() if path != bench.folder_of_run)
    assert "anchor" not in (other / "summary.json").read_text()
    assert "anchor" not in json.loads((other / "manifest.json").read_text())["experiment"]


def test_the_plan_names_them(bench, capsys):
    assert call(["run", str(bench.experiment), "--plan", "--out", str(bench.out)]) == 0
    assert "anchor: accept_pos 9 of ngram: 0.5 ± 5 % in S" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (anchor("accept_length", 2.0).replace('"ngram"', '"eagle"'), "arm 'eagle', which the"),
        (anchor("accept_pos", 0.5), "accept_pos needs one"),
        (anchor("accept_length", 2.0, position=1), "a position belongs to accept_pos"),
        (anchor("accept_length", -2.0), r"anchor\.0\.value = -2\.0: .*; write the published"),
        (anchor("accept_length", 2.0, tolerance=5), r"anchor\.0\.tolerance = 5"),
        (anchor("acceptance", 2.0), r"anchor\.0\.metric = 'acceptance'"),
        (anchor("accept_length", 2.0, sorce="x"), "did you mean source"),
        (anchor("accept_length", 2.0) + "[anchor.setup]\nkk = 3\n", "did you mean k"),
    ],
)
def test_wrong_tables(bench, tmp_path, table, message):
    text = bench.experiment.read_text().partition("[[anchor]]")[0]
    (tmp_path / "e.toml").write_text(text + table)
    with pytest.raises(UsageError, match=message):
        load_experiment(str(tmp_path / "e.toml"), Flags())


def test_chance_is_named_where_the_interval_reaches_what_is_allowed():
    cell = Cell("s", 0.0, 1, "a")
    lengths = ("accept_length", "accept_length_drafted", "accept_length_uncut")
    unknown = {"value": nothing("nothing", "1")}
    metrics = dict.fromkeys((*lengths, "accept_length_macro", "accepted_mean"), unknown)

    def causes(low, high):
        measured = Quantity(2.4, "tokens/step", low, high, 0.95, n=4)
        held = metrics | {"accept_length": {"value": measured}}
        manifest = SimpleNamespace(
            experiment={"anchor": [vars_of(Anchor("a", "accept_length", 2.0, 0.1, "S"))]},
            identity=SimpleNamespace(concurrency=(1,), dtype="d", quant="none", max_new_tokens=8),
            suites=[SimpleNamespace(name="s", items=4)],
            arm=lambda name: SimpleNamespace(engine="e", k=3),
        )
        (check,) = check_anchors(
            manifest, {cell: MeasuredCell((), (), (), (), held)}, {cell: ["degenerate"]}
        )
        assert check.off == pytest.approx(0.2)
        return check.causes

    # 10 % of 2.0 is allowed: up to 2.2.
    assert causes(2.1, 2.7)[0] == "chance: the interval over 4 prompts reaches what is allowed"
    assert causes(2.3, 2.7)[0] == "guards of this cell: degenerate"


def vars_of(found):
    return {name: getattr(found, name) for name in found.__slots__}


ANCHORS = [name for name in builtin_names() if name.startswith("anchor-")]


def test_there_are_built_in_anchors():
    assert len(ANCHORS) == 3


@pytest.mark.parametrize("name", ANCHORS)
def test_built_in_anchors_agree_with_themselves(name):
    """The accept length that is published is 1 + the sum of its positions, to its last digit."""
    found = load_experiment(name, Flags()).experiment
    length, *positions = found.anchor
    assert (length.metric, length.position) == ("accept_length_drafted", None)
    assert [one.position for one in positions] == [1, 2, 3]
    assert length.value == pytest.approx(1 + sum(one.value for one in positions), abs=0.006)
    assert (found.arm["eagle3"].k, found.workload.max_new_tokens) == (3, 256)
    assert found.workload.temperatures == [0.0]


@pytest.mark.parametrize("name", ANCHORS)
def test_built_in_anchors_need_nothing_but_what_they_name(name, tmp_path, monkeypatch):
    monkeypatch.setenv("SPECBENCH_CACHE", str(tmp_path))
    with pytest.raises(PrerequisiteError, match=r"not in the hub cache|not on this disk"):
        prepare(load_experiment(name, Flags()))
