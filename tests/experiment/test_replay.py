"""Drafts scored on a recorded run: the live accept length at temperature 0, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from specbench.core.manifest import UNKNOWN
from specbench.core.quantity import Quantity, nothing
from specbench.core.trace import Finish
from specbench.errors import NotComparable, PrerequisiteError, UsageError
from specbench.experiment.replay.drafts import Drafts, named_drafts
from specbench.experiment.replay.records import chosen
from specbench.experiment.replay.run import Asked, Hooks, replay_drafts
from specbench.experiment.replay.table import document, flat, grid, lines, shown
from specbench.metrics.acceptance import accept_length, accepted_mean
from specbench.results.read import read_run
from tests.experiment.replayed_run import ITEMS, drafts, write_model, write_run

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def folder(tmp_path_factory, one_thread):
    return tmp_path_factory.mktemp("replayed")


@pytest.fixture(scope="module")
def recorded(folder):
    return read_run(write_run(folder))


@pytest.fixture(scope="module")
def found(folder, recorded):
    """All arms of the experiment, replayed on plain's outputs in one pass."""
    named = named_drafts((), str(folder / "experiment.toml"))
    return replay_drafts(recorded, Asked(named, (1, 2, 3, 4), "plain"))


def live(recorded, arm, temperature):
    return [
        trace
        for record, trace in recorded.traces.items()
        if (record.arm, record.key.temperature) == (arm, temperature)
    ]


def line(table, draft, k, temperature):
    return next(x for x in table if (x.draft, x.k, x.temperature) == (draft, k, temperature))


def test_at_temperature_0_the_accept_length_is_that_of_the_run(recorded, found):
    table = lines(found)
    for arm, k in (("lookup", 3), ("skip", 2), ("second", 4)):
        traces = live(recorded, arm, 0.0)
        expected = accept_length(traces, seed=recorded.manifest.seed)
        assert line(table, arm, k, 0.0).accept_length == expected
        assert expected.number() > 1.02
        (requests,) = (rs for (_, t), rs in found.requests.items() if t == 0.0)
        steps = [request.drafts[arm].steps[k] for request in requests]
        accepted = sum(i * n for step in steps for i, n in enumerate(step.accepted))
        mean = accepted_mean(traces, seed=1).number()
        assert accepted / sum(step.count for step in steps) == pytest.approx(mean)


def test_above_it_the_expectation_is_near_the_run(recorded, found):
    # Six requests: a rough check beside those by enumeration.
    for arm, k in (("lookup", 3), ("second", 4)):
        expected = line(lines(found), arm, k, 0.8).accept_length.number()
        assert accept_length(live(recorded, arm, 0.8), seed=1).number() == pytest.approx(
            expected, rel=0.25
        )


def test_lines_are_in_the_order_of_the_question(found):
    table = lines(found)
    keys = [(x.temperature, x.draft, x.k) for x in table]
    names = ("lookup", "skip", "second")
    assert keys == [(t, n, k) for t in (0.0, 0.8) for n in names for k in (1, 2, 3, 4)]
    assert all(x.requests == 2 * ITEMS and x.accept_length.n == ITEMS for x in table)
    assert all((x.difference is None) == (x.draft == "lookup") for x in table)
    one = line(table, "second", 2, 0.0)
    first = line(table, "lookup", 2, 0.0)
    longest = line(table, "lookup", 4, 0.0)
    gap = one.accept_length.number() - first.accept_length.number()
    assert one.difference.number() == pytest.approx(gap)
    assert one.difference.low <= gap <= one.difference.high
    assert (first.outside.number(), one.outside.number()) == (0.0, 0.0)
    # A lookup with less room is another draft, one that was asked only where a step begins.
    assert not any(one.known for one in (first.alpha, first.alpha_at_k, first.no_draft))
    assert 0 < longest.no_draft.number() < 1
    assert one.alpha.number() == line(table, "second", 4, 0.0).alpha.number()
    assert one.no_draft.number() == 0.0


def test_a_longer_draft_never_takes_more_steps(found):
    for requests in found.requests.values():
        for request in requests:
            for name in ("skip", "second"):
                steps = [request.drafts[name].steps[k].count for k in (1, 2, 3, 4)]
                assert steps == sorted(steps, reverse=True)
                assert request.tokens >= steps[0] >= request.tokens / 2


def test_notes_name_rules_that_are_not_replayed(found):
    assert found.notes == ["skip is scored as under rejection, not under its rule target_match"]
    assert dict(found.reasons) == {}


def test_figures_for_people_and_for_programs(found):
    one = lines(found)[-1]
    text = shown(one)
    assert text["accept_length"].startswith(f"{one.accept_length.number():.3f} [")
    cells = flat(one)
    assert cells["accept_length"] == one.accept_length.number()
    assert (cells["vs_first_low"], cells["items"]) == (one.difference.low, ITEMS)
    first = flat(lines(found)[0])
    assert (first["vs_first"], first["vs_first_low"]) == (None, None)
    assert shown(replace(one, alpha=nothing("why", "1")))["alpha"] == "n/a"
    assert flat(replace(one, alpha=nothing("why", "1")))["alpha"] is None
    assert shown(replace(one, alpha=Quantity(0.5, "1")))["alpha"] == "0.500"


def test_the_console_has_room_for_its_columns(found):
    table = lines(found)
    made = grid(table, "lookup")
    assert "outside vocabulary" not in made.header  # no draft here has a vocabulary of its own
    row = dict(zip(made.header, made.rows[-1], strict=True))
    last = table[-1]
    length, gap = last.accept_length, last.difference
    assert (row["T"], row["draft"], row["k"]) == ("0.8", "second", "4")
    assert row["accept length [95 %]"] == (
        f"{length.number():.2f} [{length.low:.2f}, {length.high:.2f}]"
    )
    assert row["against lookup"] == f"{gap.number():+.2f} [{gap.low:+.2f}, {gap.high:+.2f}]"
    assert row["no draft"] == "0.000"
    assert dict(zip(made.header, made.rows[0], strict=True))["against lookup"] == ""
    alone = grid([replace(table[0], alpha=nothing("why", "1"))], "lookup")
    assert "against lookup" not in alone.header
    assert alone.rows[0][alone.header.index("alpha")] == "n/a[1]"
    assert "why" in alone.footnotes[0]
    other = grid([replace(last, outside=Quantity(0.25, "1"))], "lookup")
    assert other.rows[0][other.header.index("outside vocabulary")] == "0.250"


def test_the_document_holds_what_the_table_was_made_of(recorded, found):
    table = lines(found)
    made = json.loads(json.dumps(document(found, table), allow_nan=False))
    assert made["schema_version"] == 1
    assert (made["run"], made["arm"], made["k"]) == (recorded.manifest.run, "plain", [1, 2, 3, 4])
    assert made["drafts"][1] == {"name": "skip", "drafter": "layer_skip", "options": {"layers": 2}}
    assert made["engine"]["target"]["weight_hash"] == recorded.manifest.identity.weight_hash
    assert made["run_weight_hash"] == recorded.manifest.identity.weight_hash
    assert made["target"] == made["engine"]["target"]
    assert made["engine"]["drafts"]["second"][0]["weight_hash"]
    cold = [r for r in made["requests"] if r["key"]["temperature"] == 0.0]
    tokens = sum(request["tokens"] for request in cold)
    steps = sum(request["drafts"]["second"]["steps"]["4"]["count"] for request in cold)
    own = next(
        x for x in made["lines"] if (x["draft"], x["k"], x["temperature"]) == ("second", 4, 0)
    )
    assert own["accept_length"]["value"] == pytest.approx(tokens / steps)
    other = next(x for x in made["lines"] if (x["draft"], x["k"]) == ("lookup", 1))
    assert other["alpha_at_k"]["value"] is None
    assert "shorter drafts are other drafts" in other["alpha_at_k"]["reason"]
    assert made["notes"][-1].startswith("Nothing was decoded")


def test_records_of_a_draft_arm_can_be_replayed_too(recorded):
    """Any lossless arm's outputs are the target's; batch and limit change which are read."""
    seen = []
    asked = Asked(named_drafts(("ngram:max_n=2",), None), (2,), "second", (0.0,), 2, 1)
    again = replay_drafts(recorded, asked, Hooks(advance=seen.append))
    (requests,) = again.requests.values()
    items = [record.key.item for record in recorded.traces]
    two = list(dict.fromkeys(items))[:2]
    assert [(request.key.item, request.key.turn) for request in requests] == [
        (item, turn) for item in two for turn in (0, 1)
    ]
    assert seen == sorted(seen)
    assert 0 < seen[0] < seen[-1] <= 1


def test_a_draft_that_is_not_there_is_named_before_the_target_loads(recorded):
    for options in ("draft_model:model=./none", "multi_draft:models=['./none', './none']"):
        heard = []
        asked = Asked(drafts("ngram", options), (1,), "plain", (0.0,))
        with pytest.raises(PrerequisiteError, match=r"no folder \./none"):
            replay_drafts(recorded, asked, Hooks(heard.append))
        assert heard == []


def test_another_target_is_not_looked_up_at_the_revision_of_the_run(recorded, folder):
    target = {**recorded.manifest.experiment["target"], "revision": "abc"}
    experiment = {**recorded.manifest.experiment, "target": target}
    other = replace(recorded, manifest=replace(recorded.manifest, experiment=experiment))
    asked = Asked(drafts("ngram"), (1,), "plain", (0.0,), 1, target={"model": str(folder / "tiny")})
    assert replay_drafts(other, asked).requests


def test_a_replay_that_scores_nothing_has_no_table(recorded, monkeypatch):
    class Failed:
        failed = "draft broke"

    monkeypatch.setattr(
        "specbench.engines.drafts.replay.DraftReplay.run",
        lambda self, found, *rest: [Failed() for _ in found],
    )
    with pytest.raises(PrerequisiteError, match="no record of this run was scored") as none:
        replay_drafts(recorded, Asked(drafts("ngram"), (1,), "plain"))
    assert none.value.hint == f"{4 * ITEMS}: draft broke"


def test_the_wrong_records_are_refused(recorded):
    with pytest.raises(UsageError, match="has no arm 'plane'"):
        chosen(recorded, "plane")
    with pytest.raises(UsageError, match=r"has no temperature 0\.5"):
        chosen(recorded, "plain", (0.5,))
    arms = tuple(replace(arm, lossless="lossy") for arm in recorded.manifest.arms)
    lossy = replace(recorded, manifest=replace(recorded.manifest, arms=arms))
    with pytest.raises(UsageError, match="its tokens are not the target's"):
        chosen(lossy, "lookup")
    failed = {r: replace(t, finish=Finish.ERROR) for r, t in recorded.traces.items()}
    with pytest.raises(PrerequisiteError, match="no finished record of arm plain"):
        replay_drafts(replace(recorded, traces=failed), Asked(drafts("ngram"), (1,), "plain"))


def of_weights(recorded, weight_hash):
    identity = replace(recorded.manifest.identity, weight_hash=weight_hash)
    return replace(recorded, manifest=replace(recorded.manifest, identity=identity))


@pytest.mark.parametrize(
    ("weight_hash", "said"), [("0" * 64, "are not those of run"), (UNKNOWN, "are not known")]
)
def test_other_weights_need_a_word(recorded, weight_hash, said):
    asked = Asked(drafts("ngram"), (1,), "plain", (0.0,), 1)
    other = of_weights(recorded, weight_hash)
    with pytest.raises(NotComparable, match=said):
        replay_drafts(other, asked)
    found = replay_drafts(other, replace(asked, assume_same=True))
    assert said in found.notes[0]
    assert found.notes[0].endswith("taken as the same")


def test_tokens_of_another_target_are_counted(recorded, tmp_path):
    write_model(tmp_path, 0.3)
    target = {"model": str(tmp_path)}
    asked = Asked(drafts("ngram"), (1,), "plain", (0.0,), target=target, assume_same=True)
    notes = replay_drafts(recorded, asked).notes
    assert any("recorded tokens are not its first choice for the target here" in n for n in notes)


def test_a_changed_suite_is_refused_before_anything_loads(recorded, folder):
    suite = folder / "prompts.jsonl"
    before = suite.read_text()
    suite.write_text(before.replace("say 1", "tell 1"))
    heard = []
    try:
        with pytest.raises(UsageError, match="has changed since run"):
            replay_drafts(recorded, Asked(drafts("ngram"), (1,), "plain"), Hooks(heard.append))
    finally:
        suite.write_text(before)
    assert heard == []


def test_records_that_cannot_be_rebuilt_are_left_out_with_their_reasons(recorded):
    traces = {
        record: replace(trace, prompt_hash="0" * 64) if record.key.item == "p1" else trace
        for record, trace in recorded.traces.items()
    }
    changed = replace(recorded, traces=traces)
    found = replay_drafts(changed, Asked(drafts("ngram"), (1,), "plain", (0.0,)))
    assert dict(found.reasons) == {"prompt differs (template, tokenizer or suite changed)": 2}
    (requests,) = found.requests.values()
    assert {request.key.item for request in requests} == {"p0", "p2"}
    only = {r: t for r, t in traces.items() if r.key.item == "p1"}
    with pytest.raises(PrerequisiteError, match="no record of this run can be replayed") as none:
        replay_drafts(
            replace(recorded, traces=only), Asked(Drafts(drafts("ngram").specs), (1,), "plain")
        )
    assert none.value.hint.startswith("4: prompt differs")
