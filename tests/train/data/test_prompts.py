"""All prompts of a recipe, with a scripted target: resuming, reasons, suites, errors."""

import json

import pytest

from specbench.core.trace import Finish
from specbench.errors import PrerequisiteError, SpecbenchError, UsageError
from specbench.train.data import prompts as room
from specbench.train.data.excluded import Excluded
from specbench.train.data.prompts import collect
from specbench.train.data.records import Records
from tests.train.data.answering import FakeTarget, ids_of, never, room_for

LIBRARY = {"source": "library", "name": "lib", "count": 3}
WRITTEN = {"source": "self", "name": "own", "count": 4, "openers": ["Why", "How"]}
TOPICS = ("rivers bend", "glue sticks", "owls turn their heads", "bread rises")


@pytest.fixture(scope="module")
def excluded():
    return Excluded([])


@pytest.fixture(autouse=True)
def _excluded_once(monkeypatch, excluded):
    def made(suites, judged):
        return Excluded(suites, judged) if suites or judged else excluded

    monkeypatch.setattr(room, "Excluded", made)


@pytest.fixture
def writer():
    """Writes another question for every name."""
    return FakeTarget(lambda r: (f" do {TOPICS[int(r.key.item[-1])]}, tell me?", Finish.EOS))


@pytest.fixture
def suite(tmp_path):
    """Write a .jsonl file of rows; its folder is not the data folder."""

    def write(*rows):
        path = tmp_path / "suites" / "mine.jsonl"
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return {"source": "suite", "name": "s", "suite": str(path)}

    return write


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "data"


def ids(collected):
    return [prompt.id for prompt in collected.prompts]


def test_sources_in_order_with_ids_and_progress(recipe, folder, writer, told):
    found = collect(recipe(LIBRARY, WRITTEN), folder, writer.open, told)
    assert [i.rpartition("-")[0][:5] for i in ids(found)[:3]] == ["lib-0", "lib-1", "lib-2"]
    assert ids(found)[3:] == ["own-0", "own-1", "own-2", "own-3"]
    assert [p.source for p in found.prompts] == ["lib"] * 3 + ["own"] * 4
    assert found.prompts[3].text == "Why do rivers bend, tell me?"
    assert found.prompts[4].text == "How do glue sticks, tell me?"
    assert told.calls == [("own", done, 4) for done in range(5)]
    assert found.left_out == {}
    assert writer.opened == 1


def test_records_of_the_file(recipe, folder, writer, told):
    collect(recipe({**WRITTEN, "system": "S"}), folder, writer.open, told)
    records = [json.loads(line) for line in (folder / "prompts.jsonl").read_text().splitlines()]
    assert records[0] == {
        "id": "own-0",
        "source": "own",
        "messages": [
            {"role": "system", "content": "S"},
            {"role": "user", "content": "Why do rivers bend, tell me?"},
        ],
        "origin": "",
    }


def test_what_is_there_is_not_made_again(recipe, folder, writer, told):
    first = collect(recipe(LIBRARY, WRITTEN), folder, writer.open, told)
    # Nor is the file opened to write: another process may be doing that.
    with Records(folder / "prompts.jsonl"):
        assert collect(recipe(LIBRARY, WRITTEN), folder, never, told) == first
    assert len(writer.asked) == 4


def test_a_killed_job_goes_on_where_it_was(recipe, folder, writer, told):
    whole = collect(recipe(LIBRARY, WRITTEN), folder, writer.open, told)
    path = folder / "prompts.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:4]) + lines[4][:20])
    writer.asked.clear()
    told.calls.clear()
    assert collect(recipe(LIBRARY, WRITTEN), folder, writer.open, told) == whole
    assert writer.names == ["own-1", "own-2", "own-3"]
    assert told.calls == [("own", done, 4) for done in range(1, 5)]


def test_more_prompts_are_added_to_those_that_are_there(recipe, folder, writer, told):
    few = recipe({**LIBRARY, "count": 2}, {**WRITTEN, "count": 2})
    more = recipe({**LIBRARY, "count": 3}, {**WRITTEN, "count": 4})
    first = collect(few, folder, writer.open, told)
    assert set(ids(collect(more, folder, writer.open, told))) > set(ids(first))
    assert writer.names == ["own-0", "own-1", "own-2", "own-3"]
    # A smaller recipe takes the beginning again, and no source that it does not name.
    assert collect(few, folder, never, told) == first
    assert ids(collect(recipe({**WRITTEN, "count": 1}), folder, never, told)) == ["own-0"]


def test_another_python_keeps_the_prompts_of_its_library(recipe, folder, writer, told, monkeypatch):
    first = collect(recipe(LIBRARY), folder, never, told)

    def other(kind, count, seed):
        return iter(
            [(f"other-f{i}", f"What does f{i} do in module m{i}?") for i in range(4)][:count]
        )

    monkeypatch.setattr("specbench.train.data.sources.library_prompts", other)
    found = collect(recipe({**LIBRARY, "count": 5}), folder, never, told)
    assert ids(found) == [*ids(first), "lib-3-other-f3"]
    assert found.left_out == {"the library has no more": 1}


def test_reasons_are_counted(recipe, folder, told, suite):
    rows = [
        "Which knot holds two ropes?",
        "which knot  holds two ROPES?",
        "Do we know why we yawn?",
    ]
    mine = suite(*({"prompt": text} for text in rows))
    says = {"own-0": "", "own-1": " are you and what can you do?", "own-2": "x", "own-3": ""}
    target = FakeTarget(lambda r: (says[r.key.item], Finish.EOS))
    found = collect(recipe(mine, WRITTEN), folder, target.open, told)
    # Which of two that say the same stays follows from the order in which suites are asked.
    first, second = found.prompts
    assert first.text in rows[:2]
    assert (second.id, second.text) == ("own-1", "How are you and what can you do?")
    assert found.left_out == {
        "asked twice": 1,
        "near duplicate of a prompt in chat": 1,
        "nothing usable was written": 3,
    }
    # What was unusable is not asked for again.
    assert collect(recipe(mine, WRITTEN), folder, never, told) == found


def test_the_first_turn_of_a_suite_is_asked_with_its_system_message(recipe, folder, told, suite):
    conversation = [
        {"role": "system", "content": "You are a sailor."},
        {"role": "user", "content": "Which knot holds two ropes?"},
        {"role": "assistant", "content": "A sheet bend."},
        {"role": "user", "content": "And on a wet day?"},
    ]
    logged = {"model": "m", "messages": [*conversation]}
    source = suite(
        {"id": "talk", "messages": conversation}, {"turns": ["What floats?", "Why?"]}, logged
    )
    found = collect(recipe(source), folder, never, told)
    asked = {p.id: [m["content"] for m in p.messages] for p in found.prompts}
    assert asked == {
        "s-talk": ["You are a sailor.", "Which knot holds two ropes?"],
        "s-row-2": ["What floats?"],
        # A logged request is asked as it was.
        "s-row-3": [m["content"] for m in conversation],
    }
    record = json.loads((folder / "prompts.jsonl").read_text().splitlines()[0])
    assert record["origin"].startswith("mine/")


def test_prompts_that_need_more_than_messages_are_counted(recipe, folder, told, suite):
    tool = {"type": "function", "function": {"name": "f"}}
    rows = [
        {"prompt": "Which knot holds two ropes?"},
        {"prompt": "Call f.", "tools": [tool]},
        {"prompt": "Think.", "chat_template_kwargs": {"enable_thinking": True}},
    ]
    found = collect(recipe(suite(*rows)), folder, never, told)
    assert ids(found) == ["s-row-1"]
    assert found.left_out == {"needs tools or arguments of the template": 2}


def test_a_suite_that_changed_is_not_mixed(recipe, folder, told, suite):
    data = recipe(suite({"prompt": "Which knot holds two ropes?"}))
    collect(data, folder, never, told)
    suite({"prompt": "Which knot holds three ropes?"})
    with pytest.raises(UsageError, match="prompt mine/row-1 has changed since s-row-1 was taken"):
        collect(data, folder, never, told)


@pytest.mark.parametrize("name", ["code", "chat", "translation"])
def test_a_measured_suite_leaves_nothing(recipe, folder, told, name):
    data = recipe({"source": "suite", "name": "s", "suite": name, "count": 5})
    with pytest.raises(UsageError) as empty:
        collect(data, folder, never, told)
    path = folder / "prompts.jsonl"
    assert empty.value.message == f"{path}: no prompt is left (an evaluation prompt: 5)"
    assert "code, chat, translation" in empty.value.hint
    assert "evaluated on and never trained on" in empty.value.hint


def test_nothing_usable_says_how_often(recipe, folder, told):
    target = FakeTarget(lambda _: ("", Finish.EOS))
    with pytest.raises(UsageError, match=r"no prompt is left \(nothing usable was written: 4\)"):
        collect(recipe(WRITTEN), folder, target.open, told)


def test_suites_are_read_before_anything_is_written(recipe, folder, told, suite):
    unknown = {"source": "suite", "name": "s", "suite": "chatt"}
    for data in (recipe(WRITTEN, unknown), recipe(WRITTEN, exclude=["chatt"])):
        with pytest.raises(UsageError, match="no suite 'chatt'"):
            collect(data, folder, never, told)


def test_suites_to_exclude(recipe, folder, told, suite, tmp_path):
    mine = suite({"prompt": "Which knot holds two ropes?"}, {"prompt": "What floats on oil?"})
    other = tmp_path / "other.jsonl"
    other.write_text('{"prompt": "which knot holds two ropes"}\n')
    found = collect(recipe(mine, exclude=[str(other)]), folder, never, told)
    assert ids(found) == ["s-row-2"]
    assert found.left_out == {"near duplicate of a prompt in other": 1}


def test_the_dev_split_of_suites_that_heads_are_judged_on(recipe, folder, told, suite, tmp_path):
    asked = [
        f"{does} {what}" for does in ("boils", "bends") for what in ("oil", "lead", "tar", "ice")
    ]
    mine = suite(*({"id": f"q{i}", "prompt": f"What {t} at {i}?"} for i, t in enumerate(asked)))
    # The hashes of mine/q3, mine/q6 and mine/q7 are in the lowest 30 %, see ``suites.split``.
    rest = (0, 1, 2, 4, 5)
    found = collect(recipe(mine), folder, never, told, [mine["suite"]])
    assert set(ids(found)) == {f"s-q{i}" for i in rest}
    assert found.left_out == {"an evaluation prompt": 3}
    # By their wording too, wherever they come from.
    lines = [json.dumps({"id": f"w{i}", "prompt": f"what {t} at {i}"}) for i, t in enumerate(asked)]
    other = tmp_path / "other.jsonl"
    other.write_text("\n".join(lines) + "\n")
    source = {"source": "suite", "name": "o", "suite": str(other)}
    found = collect(recipe(source), folder, never, told, [mine["suite"]])
    assert set(ids(found)) == {f"o-w{i}" for i in rest}
    assert found.left_out == {"near duplicate of a prompt in mine": 3}
    # A suite that nothing is judged along keeps its own.
    assert len(ids(collect(recipe(mine), folder, never, told))) == 8


def test_what_another_call_writes_meanwhile_is_not_made_again(
    recipe, folder, writer, told, monkeypatch
):
    data, opened = recipe(LIBRARY, WRITTEN), []

    def late(path):
        # Between the look and the lock the other call does it all.
        if not opened:
            opened.append(path)
            collect(data, folder, writer.open, told)
        return Records(path)

    monkeypatch.setattr(room, "Records", late)
    found = collect(data, folder, never, told)
    assert len(ids_of(folder / "prompts.jsonl")) == len(found.prompts) == 7


def test_a_second_call_is_refused_before_the_target_writes(recipe, folder, told):
    with (
        Records(folder / "prompts.jsonl"),
        pytest.raises(UsageError, match=r"prompts\.jsonl is being written by another process"),
    ):
        collect(recipe(WRITTEN), folder, never, told)


def test_two_sources_with_the_same_ids(recipe, folder, writer, told, suite):
    mine = {**suite({"id": "1-0", "prompt": "What floats on oil?"}), "name": "a"}
    data = recipe(mine, {**WRITTEN, "name": "a-1", "count": 1})
    with pytest.raises(UsageError, match="'a-1' and 'a' both have a prompt 'a-1-0'"):
        collect(data, folder, writer.open, told)


def test_a_target_that_fails_keeps_what_was_written(recipe, folder, writer, told):
    failing = FakeTarget(
        lambda r: (writer.says(r)[0], Finish.OOM if r.key.item == "own-2" else Finish.EOS)
    )
    with pytest.raises(SpecbenchError, match="writing own-2 failed"):
        collect(recipe(WRITTEN), folder, failing.open, told)
    assert ids_of(folder / "prompts.jsonl") == ["own-0", "own-1"]
    assert len(collect(recipe(WRITTEN), folder, writer.open, told).prompts) == 4
    assert writer.names == ["own-2", "own-3"]


def test_a_full_disk_keeps_what_was_written(recipe, folder, writer, told):
    with room_for(300), pytest.raises(SpecbenchError, match=r"cannot write .*prompts\.jsonl: "):
        collect(recipe(WRITTEN), folder, writer.open, told)
    assert len(collect(recipe(WRITTEN), folder, writer.open, told).prompts) == 4


def test_a_damaged_file_is_named(recipe, folder, writer, told):
    collect(recipe(WRITTEN), folder, writer.open, told)
    path = folder / "prompts.jsonl"
    path.write_text(path.read_text().replace('"origin"', '"other"', 2))
    with pytest.raises(PrerequisiteError, match=r"prompts\.jsonl, line 1: damaged"):
        collect(recipe(WRITTEN), folder, writer.open, told)
