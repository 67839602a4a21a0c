"""Definitions of public sets, each on rows of the same shape that were written for this test."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest

from specbench.core.suite import Scoring
from specbench.errors import PrerequisiteError, UsageError
from specbench.quality.python_code import program
from specbench.suites import hub, source
from specbench.suites.definition import definition, public_names
from specbench.suites.loader import load_suite, select
from specbench.suites.templates import messages_for_turn

SAMPLES = Path(__file__).parents[1] / "data" / "public_sets"
CALL = '<tool_call>\n{"name": "get_tide", "arguments": {"port": "Husum"}}\n</tool_call>'


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    def refuse(*address):
        raise AssertionError(f"a socket was opened: {address}")

    monkeypatch.setenv("SPECBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(socket.socket, "connect", refuse)
    return tmp_path / "cache"


def samples(name):
    joined = SAMPLES / f"{name}.joined.jsonl"
    return [SAMPLES / f"{name}.jsonl", *([joined] if joined.is_file() else [])]


def fetched(name):
    hub.fetch(name, paths=samples(name))
    return load_suite(name)


def test_every_definition_has_a_sample_and_a_description():
    assert public_names() == sorted({path.name.split(".")[0] for path in SAMPLES.iterdir()})
    for found in hub.public_sets():
        assert not found.fetched
        assert found.title


@pytest.mark.parametrize("name", public_names())
def test_every_set_becomes_an_ordinary_suite(name):
    suite = fetched(name)
    assert (suite.name, suite.licence) == (name, definition(name).license)
    assert suite.version.startswith("file-")
    assert all(turn.strip() and "{{" not in turn for p in suite.prompts for turn in p.turns)
    # made twice, it is the same suite
    assert fetched(name).digest == suite.digest


@pytest.mark.parametrize("name", ["humaneval", "mbpp"])
def test_code_is_scored_by_the_tests_of_the_set(name):
    (prompt,) = fetched(name).prompts
    for answer, right in [(prompt.reference, True), (_broken(prompt.reference), False)]:
        source_text = program(f"```python\n{answer}\n```", prompt.turns, prompt.scoring)
        if right:
            exec(compile(source_text, "answer.py", "exec"), {"__name__": "answer"})
        else:
            with pytest.raises(AssertionError):
                exec(compile(source_text, "answer.py", "exec"), {"__name__": "answer"})


def _broken(code):
    return code.replace("sum(numbers) +", "sum(numbers) -").replace("2 * largest", "3 * largest")


def test_humaneval():
    (prompt,) = fetched("humaneval").prompts
    assert (prompt.id, prompt.category) == ("ours-0", "function")
    assert prompt.scoring.entry_point == "add_all"
    assert prompt.turns[0].startswith("Write the body of this function.\n\n```python\nfrom typing")
    # an answer that is the body alone is completed by the header that the prompt shows
    text = program("    return sum(numbers) + extra", prompt.turns, prompt.scoring)
    exec(compile(text, "answer.py", "exec"), {"__name__": "answer"})


def test_mbpp_finds_the_function_that_the_tests_call():
    (prompt,) = fetched("mbpp").prompts
    assert (prompt.id, prompt.scoring.entry_point) == ("mbpp-11", "double_largest")
    assert prompt.scoring.tests == (
        "import math\nassert double_largest([1, 2]) == 4\n"
        "assert math.isclose(double_largest([0.5]), 1.0)\n"
    )


def test_multi_turn_sets():
    one, two = fetched("mt-bench").prompts
    assert (one.turns, one.reference) == (("Name a colour.", "And another one?"), None)
    assert (two.id, two.category, two.reference, two.recorded) == ("8", "math", "5\n10", ())
    firsts = fetched("mt-bench-first-turn").prompts
    assert [prompt.turns for prompt in firsts] == [("Name a colour.",), ("What is 2 + 3?",)]
    (speed,) = fetched("speed-bench").prompts
    assert (speed.id, speed.category, len(speed.turns)) == ("coding-001", "coding", 2)


def test_spec_bench_has_the_tasks_of_its_tables():
    suite = fetched("spec-bench")
    assert list(suite.categories) == ["multi-turn", "translation", "rag"]
    assert [p.tags for p in suite.prompts] == [("writing",), ("translation",), ("rag",)]
    assert [p.reference for p in suite.prompts] == [None, "Good day", "deep\nit is deep"]
    assert suite.turns == 4


def test_mathematics():
    (word,) = fetched("gsm8k").prompts
    assert (word.id, word.reference[-6:], word.scoring) == ("row-1", "#### 7", None)
    (hard,) = fetched("math-500").prompts
    assert (hard.id, hard.tags) == ("test-prealgebra-1-json", ("level-1",))
    assert hard.turns[0].endswith("into \\boxed{}.")


def test_translations_are_scored_against_their_reference():
    (prompt,) = fetched("wmt19-de-en").prompts
    scoring = Scoring("translation", source_language="de", target_language="en")
    assert prompt.scoring == Scoring(**{**_fields(scoring), "source": "Es regnet."})
    assert prompt.reference == "It is raining."
    # two languages are joined by sentence, whatever their order
    first, second = fetched("flores-de-en").prompts
    assert (first.id, first.scoring.source) == ("flores-1", "Der Zug hält hier.")
    assert [first.reference, second.reference] == ["The train stops here.", "The bridge is old."]


def _fields(scoring):
    return {name: getattr(scoring, name) for name in Scoring.__slots__}


def test_conversations_keep_the_recorded_answers_and_bad_rows_are_counted(cache):
    made = hub.fetch("sharegpt", paths=samples("sharegpt"))
    assert made.skipped == (
        "row 2: conversations: no human turn with an answer; write at least one of each",
    )
    origin = json.loads((made.folder / "origin.json").read_text())
    assert (origin["rows"], origin["skipped"]) == (1, list(made.skipped))
    (prompt,) = load_suite("sharegpt").prompts
    assert (prompt.id, prompt.turns, prompt.recorded) == (
        "abc_0",
        ("Hi", "Bye"),
        ("Hello", "Bye"),
    )


def test_tools_are_objects_and_the_message_that_repeats_them_is_dropped():
    (call,) = fetched("tool-calls").prompts
    (tool,) = call.passed_on["tools"]
    assert tool["function"]["name"] == "get_tide"
    assert (call.system, call.turns, call.recorded) == (
        None,
        ("When is high tide in Husum?",),
        (CALL,),
    )
    (trace,) = fetched("tool-traces").prompts
    messages = messages_for_turn(trace, 0, ())
    assert [m["role"] for m in messages] == ["user", "assistant", "tool"]
    assert messages[1]["content"] == CALL
    assert trace.recorded == ("At 12:10.",)
    assert trace.passed_on == call.passed_on


# what goes wrong


def test_a_set_that_was_not_fetched_says_what_to_type():
    with pytest.raises(PrerequisiteError) as caught:
        load_suite("humaneval")
    assert "specbench suites fetch humaneval --file FILE" in str(caught.value)
    with pytest.raises(UsageError, match="did you mean humaneval"):
        load_suite("human-eval")


@pytest.mark.parametrize("offline", [True, None])
def test_offline_means_no_socket(monkeypatch, offline):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(PrerequisiteError, match="this is offline"):
        hub.fetch("humaneval", offline=offline)


def test_without_datasets_there_is_a_line_to_type(monkeypatch, tmp_path):
    def absent(name):
        raise ImportError(name)

    monkeypatch.setattr(source, "import_module", absent)
    with pytest.raises(PrerequisiteError, match=r"pip install --upgrade 'specbench-llm\[data\]'"):
        hub.fetch("humaneval", offline=False)
    (tmp_path / "a.csv").write_text("question,answer\nQ,A\n")
    with pytest.raises(PrerequisiteError, match="specbench-llm"):
        hub.fetch("gsm8k", paths=[tmp_path / "a.csv"])
    # JSON needs no package
    assert hub.fetch("gsm8k", paths=samples("gsm8k")).prompts == 1


def test_a_package_that_datasets_wants_is_no_crash(monkeypatch, tmp_path):
    def load_dataset(*arguments, **options):
        raise ImportError("HTTPFileSystem requires requests and aiohttp")

    module = SimpleNamespace(
        load_dataset=load_dataset, exceptions=SimpleNamespace(DatasetsError=KeyError)
    )
    monkeypatch.setattr(source, "import_module", lambda name: module)
    (tmp_path / "a.csv").write_text("question,answer\nQ,A\n")
    for options in ({"offline": False}, {"paths": [tmp_path / "a.csv"]}):
        with pytest.raises(PrerequisiteError) as caught:
            hub.fetch("gsm8k", **options)
        assert "requests and aiohttp" in str(caught.value)
        assert "pip install --upgrade 'specbench-llm[data]'" in str(caught.value)


def written(tmp_path, *rows, name="copy.jsonl"):
    path = tmp_path / name
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return [path]


def test_placeholders_are_no_prompts(tmp_path):
    text = "FULL BENCHMARK DATA SHOULD BE FETCHED FROM THE SOURCE USING SPECDEC_BENCH"
    row = {"question_id": "a", "category": "qa", "turns": [text]}
    with pytest.raises(UsageError) as caught:
        hub.fetch("speed-bench", paths=written(tmp_path, row))
    assert "row 1: turns: a placeholder" in str(caught.value)
    assert "1 of 1 rows cannot be used" in str(caught.value)


def test_missing_fields_are_named(tmp_path):
    with pytest.raises(UsageError) as caught:
        hub.fetch("gsm8k", paths=written(tmp_path, {"query": "Q", "answer": "A"}))
    assert "question: not in the row, which has query, answer" in str(caught.value)
    row = {"id": "a", "category": "c", "conversations": [], "tools": "[{"}
    with pytest.raises(UsageError, match=r"tools: '\[{' is not JSON"):
        hub.fetch("tool-calls", paths=written(tmp_path, row))


def test_values_are_no_templates(tmp_path):
    row = {"question": "What is {{answer}}?", "answer": "{{question}}"}
    hub.fetch("gsm8k", paths=written(tmp_path, row))
    (prompt,) = load_suite("gsm8k").prompts
    assert prompt.turns[0].startswith("What is {{answer}}?")


def test_a_failed_fetch_leaves_the_suite_that_was_there(tmp_path, cache):
    before = fetched("gsm8k")
    with pytest.raises(UsageError):
        hub.fetch("gsm8k", paths=written(tmp_path, {"question": "Q"}, {}))
    assert load_suite("gsm8k").digest == before.digest
    assert [path.name for path in (cache / "suites").iterdir()] == ["gsm8k"]


def questions(tmp_path, *categories):
    rows = [{"prompt_id": n, "category": c, "prompt": ["U"]} for n, c in enumerate(categories)]
    return written(tmp_path, *rows)


def test_a_limit_is_spread_over_the_categories(tmp_path):
    paths = questions(tmp_path, *"aaaaaabbc")
    made = hub.fetch("mt-bench", paths=paths, limit=4)
    assert (made.prompts, made.replaced) == (4, None)
    suite = load_suite("mt-bench")
    # one of each, then the next of the first category; written in the order of the set
    assert sorted(p.category for p in suite.prompts) == ["a", "a", "b", "c"]
    assert [int(p.id) for p in suite.prompts] == sorted(int(p.id) for p in suite.prompts)
    origin = json.loads((made.folder / "origin.json").read_text())
    assert (origin["rows"], origin["of"]) == (4, 9)
    assert hub.fetch("mt-bench", paths=paths).replaced == 4
    counts = {found.name: found.prompts for found in hub.public_sets()}
    assert (counts["mt-bench"], counts["gsm8k"]) == (9, None)


def test_a_limit_chooses_as_select_does(tmp_path):
    paths = questions(tmp_path, *"aaaabbbbcc")
    hub.fetch("mt-bench", paths=paths)
    expected = {p.id for p in select(load_suite("mt-bench"), limit=5)}
    hub.fetch("mt-bench", paths=paths, limit=5)
    assert {p.id for p in load_suite("mt-bench").prompts} == expected


def test_rows_of_another_set_are_told_in_one_line(tmp_path):
    with pytest.raises(UsageError) as caught:
        hub.fetch("mt-bench", paths=samples("spec-bench"))
    first, second = str(caught.value).splitlines()
    assert first == (
        "mt-bench: none of the 3 rows can be used: "
        "prompt_id: not in the row, which has question_id, category, turns"
    )
    # both read question_id, category and turns; spec-bench reads the reference as well
    assert second.strip() == (
        "looks like spec-bench or speed-bench; type: specbench suites fetch spec-bench --file FILE"
    )
    with pytest.raises(UsageError) as caught:
        hub.fetch("mt-bench", paths=written(tmp_path, {"text": "U"}, {"text": "V", "n": 1}))
    assert "none of the 2 rows" in str(caught.value)
    assert "a row of this set has category, prompt, prompt_id, reference" in str(caught.value)
    # two reasons are two lines, as before
    with pytest.raises(UsageError, match="2 of 2 rows cannot be used"):
        hub.fetch("mt-bench", paths=written(tmp_path, {"prompt_id": 1}, {"category": "c"}))


def test_wrong_files(tmp_path):
    for paths, part in [
        ([tmp_path / "none.jsonl"], "no file"),
        (written(tmp_path, {}, name="a.txt"), "no form that can be read"),
        (samples("flores-de-en"), "made of 1 file"),
    ]:
        with pytest.raises(UsageError, match=part):
            hub.fetch("gsm8k", paths=paths)
    with pytest.raises(UsageError, match="write --file once per file"):
        hub.fetch("flores-de-en", paths=samples("flores-de-en")[:1])
    with pytest.raises(UsageError, match="--revision applies to the hub"):
        hub.fetch("gsm8k", paths=samples("gsm8k"), revision="main")
    (tmp_path / "bad.json").write_text('[{"question": ')
    with pytest.raises(UsageError, match="not JSON"):
        hub.fetch("gsm8k", paths=[tmp_path / "bad.json"])
