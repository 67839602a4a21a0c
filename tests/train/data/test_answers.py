"""The target's answers, with a scripted target: resuming, loops, temperatures, errors."""

import json
from collections import Counter

import pytest

from specbench.core.trace import Finish
from specbench.errors import PrerequisiteError, SpecbenchError, UsageError
from specbench.train.data import answers as room
from specbench.train.data.answers import answer, before_loop
from specbench.train.data.asked import Asked
from specbench.train.data.records import Records
from tests.train.data.answering import FakeTarget, ids_of, never, room_for

EIGHT = list(range(10, 18))


@pytest.mark.parametrize(
    ("ids", "kept"),
    [
        ([], 0),
        (EIGHT, 8),
        ([*EIGHT, 1, *EIGHT, 2], 18),
        # The third occurrence begins at 8 + 1 + 8 + 1 = 18.
        ([*EIGHT, 1, *EIGHT, 2, *EIGHT, 3], 18),
        ([5, *EIGHT * 9], 17),
        # Seven tokens are no run of eight, but with what follows each time they are.
        ([*EIGHT[:7], 1, *EIGHT[:7], 2, *EIGHT[:7], 3], 24),
        # A period of 3: tokens 0-7, 3-10 and 6-13 are the same.
        ([1, 2, 3] * 5, 6),
        ([1, 2, 3] * 4 + [1], 13),
        ([7] * 10, 2),
        ([7] * 9, 9),
    ],
)
def test_an_output_is_cut_where_a_run_of_eight_occurs_the_third_time(ids, kept):
    assert before_loop(ids) == kept


def test_answers_are_records(recipe, tmp_path, prompts, target, told):
    found = answer(recipe(), prompts(1), tmp_path, target.open, told)
    (record,) = [json.loads(line) for line in (tmp_path / "answers.jsonl").open()]
    assert record == {
        "id": "q-0/0",
        "source": "q",
        "prompt": list(map(ord, "<u>question 0</>")),
        "answer": list(map(ord, "about q-0/0, at length")),
        "temperature": record["temperature"],
        "finish": "eos",
    }
    (kept,) = found.kept
    assert kept.record() == {**record, "prompt": kept.prompt, "answer": kept.answer}
    assert found.tokens == len("about q-0/0, at length")


def test_requests_have_the_limits_of_the_recipe(recipe, tmp_path, prompts, target, told):
    answer(recipe(batch=5, max_new_tokens=33), prompts(3), tmp_path, target.open, told)
    assert target.batches == [5]
    assert {r.limits.max_new_tokens for r in target.asked} == {33}
    assert {r.stops.token_ids for r in target.asked} == {(0,)}


def test_progress_counts_what_is_there(recipe, tmp_path, prompts, target, told):
    answer(recipe(), prompts(2), tmp_path, target.open, told)
    length = len("about q-0/0, at length")
    assert told.calls == [(1, 2, length), (2, 2, 2 * length)]
    told.calls.clear()
    # Two answers of another recipe lie there as well, and are neither wanted nor counted.
    answer(recipe(), prompts(4)[1:], tmp_path, target.open, told)
    assert told.calls == [(2, 3, length), (3, 3, 2 * length)]


def test_what_is_there_is_not_asked_again(recipe, tmp_path, prompts, target, told):
    first = answer(recipe(), prompts(6), tmp_path, target.open, told)
    with Records(tmp_path / "answers.jsonl"):
        assert answer(recipe(), prompts(6), tmp_path, never, told) == first
    assert Counter(target.names) == {f"q-{n}/0": 1 for n in range(6)}


def test_a_killed_job_goes_on_where_it_was(recipe, tmp_path, prompts, target, told):
    whole = answer(recipe(), prompts(6), tmp_path, target.open, told)
    path = tmp_path / "answers.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:3]) + lines[3][:-1])
    order = list(target.names)
    target.asked.clear()
    assert answer(recipe(), prompts(6), tmp_path, target.open, told) == whole
    assert target.names == order[3:]


def test_the_order_of_answers_follows_from_their_names(recipe, tmp_path, prompts, target, told):
    some, all_ = prompts(8)[1::2], prompts(8)
    answer(recipe(), some, tmp_path / "a", target.open, told)
    in_two = answer(recipe(), all_, tmp_path / "a", target.open, told)
    at_once = answer(recipe(), all_[::-1], tmp_path / "b", target.open, told)
    assert in_two == at_once
    assert ids_of(tmp_path / "a" / "answers.jsonl") != ids_of(tmp_path / "b" / "answers.jsonl")


def test_a_torn_line_in_the_middle_is_refused(recipe, tmp_path, prompts, target, told):
    answer(recipe(), prompts(3), tmp_path, target.open, told)
    path = tmp_path / "answers.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1][:30] + b"\n" + lines[2])
    with pytest.raises(PrerequisiteError, match=r"answers\.jsonl, line 2: damaged"):
        answer(recipe(), prompts(3), tmp_path, never, told)


def test_a_looping_answer_is_cut(recipe, tmp_path, prompts, told):
    looping = FakeTarget(lambda _: ([5, *EIGHT * 9], Finish.LENGTH))
    (kept,) = answer(recipe(), prompts(1), tmp_path, looping.open, told).kept
    assert (list(kept.answer), kept.finish) == ([5, *EIGHT * 2], "loop")


def test_answers_that_are_too_short_are_counted(recipe, tmp_path, prompts, told):
    lengths = {"q-0/0": 3, "q-1/0": 4, "q-2/0": 0}
    target = FakeTarget(lambda r: (list(range(1, 1 + lengths[r.key.item])), Finish.EOS))
    found = answer(recipe(), prompts(3), tmp_path, target.open, told)
    assert [one.id for one in found.kept] == ["q-1/0"]
    assert found.left_out == {"the answer has fewer than 4 tokens": 2}
    assert answer(recipe(), prompts(3), tmp_path, never, told) == found


def test_long_prompts_are_looked_at_once(recipe, tmp_path, prompts, target, told):
    long = Asked("long", "q", ({"role": "user", "content": "x" * 100},))
    edge = len("<u>question 0</>")
    data = recipe(max_prompt_tokens=edge)
    found = answer(data, [*prompts(1), long], tmp_path, target.open, told)
    assert [one.id for one in found.kept] == ["q-0/0"]
    assert found.left_out == {"the prompt is longer than data.max_prompt_tokens": 1}
    assert target.names == ["q-0/0"]
    assert told.calls[-1][:2] == (2, 2)
    assert answer(data, [*prompts(1), long], tmp_path, never, told) == found
    assert sorted(ids_of(tmp_path / "answers.jsonl")) == ["long/0", "q-0/0"]


MIX = [0.0, 0.7, 1.0]


def temperatures(target):
    return {request.key.item: request.sampling.temperature for request in target.asked}


def test_temperatures_are_dealt_out_evenly_and_for_good(recipe, tmp_path, prompts, target, told):
    answer(recipe(temperatures=MIX), prompts(300), tmp_path / "a", target.open, told)
    few = temperatures(target)
    assert set(few.values()) == set(MIX)
    # 100 of each are expected, with a deviation of 8
    assert all(70 < count < 130 for count in Counter(few.values()).values())
    target.asked.clear()
    answer(recipe(temperatures=MIX), prompts(400), tmp_path / "b", target.open, told)
    more = temperatures(target)
    assert few == {name: more[name] for name in few}


def test_each_answer_of_a_prompt_has_the_next_temperature(recipe, tmp_path, prompts, target, told):
    data = recipe(temperatures=MIX, answers=3)
    found = answer(data, prompts(5), tmp_path / "a", target.open, told)
    dealt = temperatures(target)
    for n in range(5):
        turns = [MIX.index(dealt[f"q-{n}/{i}"]) for i in range(3)]
        assert [(turn - turns[0]) % 3 for turn in turns] == [0, 1, 2]
    assert {one.id: one.temperature for one in found.kept} == dealt
    assert len({request.seed for request in target.asked}) == 15
    # With fewer answers the first ones are the same.
    target.asked.clear()
    answer(recipe(temperatures=MIX), prompts(5), tmp_path / "b", target.open, told)
    assert temperatures(target) == {name: dealt[name] for name in dealt if name.endswith("/0")}


@pytest.mark.parametrize(
    ("finish", "hint"), [(Finish.OOM, "lower data.batch"), (Finish.ERROR, "same command")]
)
def test_a_failed_answer_stops_and_keeps_the_others(
    recipe, tmp_path, prompts, target, told, finish, hint
):
    answer(recipe(), prompts(5), tmp_path / "order", target.open, told)
    order = list(target.names)
    failing = FakeTarget(lambda r: ("12345", finish if r.key.item == order[2] else Finish.EOS))
    with pytest.raises(SpecbenchError) as failed:
        answer(recipe(), prompts(5), tmp_path, failing.open, told)
    assert failed.value.message == f"answering {order[2]} failed: RuntimeError: no room"
    assert "what is finished is kept" in failed.value.hint
    assert hint in failed.value.hint
    assert ids_of(tmp_path / "answers.jsonl") == order[:2]
    target.asked.clear()
    answer(recipe(), prompts(5), tmp_path, target.open, told)
    assert target.names == order[2:]


def test_a_full_disk_keeps_what_is_finished(recipe, tmp_path, prompts, target, told):
    with room_for(700), pytest.raises(SpecbenchError) as full:
        answer(recipe(), prompts(9), tmp_path, target.open, told)
    path = tmp_path / "answers.jsonl"
    assert full.value.message.startswith(f"cannot write {path}: ")
    assert "finished records are kept: make room" in full.value.hint
    finished = path.read_bytes().count(b"\n")
    assert 0 < finished < 9
    target.asked.clear()
    assert len(answer(recipe(), prompts(9), tmp_path, target.open, told).kept) == 9
    assert len(target.asked) == 9 - finished


def test_nothing_left_is_an_error_with_reasons(recipe, tmp_path, prompts, told):
    silent = FakeTarget(lambda _: ([], Finish.EOS))
    with pytest.raises(UsageError) as empty:
        answer(recipe(), prompts(2), tmp_path, silent.open, told)
    reason = "the answer has fewer than 4 tokens: 2"
    path = tmp_path / "answers.jsonl"
    assert empty.value.message == f"{path}: no answer is left to train on ({reason})"
    with pytest.raises(UsageError, match="nothing was asked"):
        answer(recipe(), [], tmp_path, never, told)


def test_what_another_call_writes_meanwhile_is_not_asked_again(
    recipe, tmp_path, prompts, target, told, monkeypatch
):
    opened = []

    def late(path):
        # Between the look and the lock the other call does it all.
        if not opened:
            opened.append(path)
            answer(recipe(), prompts(3), tmp_path, target.open, told)
        return Records(path)

    monkeypatch.setattr(room, "Records", late)
    found = answer(recipe(), prompts(3), tmp_path, never, told)
    assert len(ids_of(tmp_path / "answers.jsonl")) == len(found.kept) == 3
