import pytest

from specbench.core.suite import Scoring
from specbench.errors import PrerequisiteError
from specbench.quality.sandbox import Sandbox
from specbench.quality.sandbox_outcome import Limits, Outcome, Ran
from specbench.quality.score import NOT_EXECUTED, score_answers
from tests.quality.made import CODE, JSON, answer, translation

RIGHT, WRONG = "def f(x):\n    return x + 1", "def f(x):\n    return x"


class Watched:
    """A sandbox that runs nothing and says what it was told to."""

    def __init__(self, outcome, detail=""):
        self.ran = Ran(outcome, detail)
        self.programs = []

    def run(self, program):
        self.programs.append(program)
        return self.ran


def test_each_kind_in_the_order_given():
    found = score_answers(
        [
            answer("Das", translation("de"), reference="Das"),
            answer('{"a": 1}'),
            answer(RIGHT, CODE),
            answer("", translation("de"), reference="Das"),
            answer("Here: {}"),
        ],
        execute=False,
    )
    assert [scored.metric for scored in found] == [
        "quality_chrf", "quality_json", "quality_code", "quality_chrf", "quality_json",
    ]  # fmt: skip
    assert [scored.value for scored in found] == [pytest.approx(100.0), 1.0, None, 0.0, 0.0]
    assert [scored.surrounded for scored in found] == [False, False, False, False, True]
    assert found[2].detail == NOT_EXECUTED == "code is not executed; --score code"
    assert found[4].detail == "without the key a"
    assert (found[0].segment is None, found[1].segment) == (False, None)


def test_special_tokens_are_no_part_of_a_translation():
    ended, clean = score_answers(
        [
            answer("Das Haus<|im_end|>", translation("de"), reference="Das Haus"),
            answer("Das Haus", translation("de"), reference="Das Haus"),
        ],
        execute=False,
    )
    assert ended.segment == clean.segment


def test_no_sandbox_is_opened_where_no_code_is_to_be_run(monkeypatch):
    def refuse():
        raise AssertionError("opened")

    monkeypatch.setattr("specbench.quality.score.open_sandbox", refuse)
    assert score_answers([], execute=True) == []
    score_answers([answer("{}")], execute=True)
    score_answers([answer(RIGHT, CODE)], execute=False)
    with pytest.raises(AssertionError, match="opened"):
        score_answers([answer(RIGHT, CODE)], execute=True)


def test_equal_programs_are_run_once():
    watched = Watched(Outcome.PASSED)
    same = [answer(RIGHT, CODE, arm=arm, repeat=n) for arm in ("mtp", "plain") for n in (0, 1)]
    found = score_answers([*same, answer(WRONG, CODE)], execute=True, sandbox=watched)
    assert len(watched.programs) == 2
    assert [scored.value for scored in found] == [1.0] * 5


def test_an_answer_without_the_function_is_wrong_and_not_run():
    watched = Watched(Outcome.PASSED)
    (found,) = score_answers([answer("Sorry.", CODE)], execute=True, sandbox=watched)
    assert (found.value, watched.programs) == (0.0, [])
    assert found.detail == "no code that defines f"


@pytest.mark.parametrize("outcome", [each for each in Outcome if each is not Outcome.REFUSED])
def test_only_a_pass_is_right(outcome):
    (found,) = score_answers([answer(RIGHT, CODE)], execute=True, sandbox=Watched(outcome, "why"))
    passed = outcome is Outcome.PASSED
    assert (found.value, found.detail) == (float(passed), "" if passed else f"{outcome}: why")


def test_a_refusal_calls_no_answer_wrong():
    with pytest.raises(PrerequisiteError, match="could not be built: unshare") as caught:
        score_answers(
            [answer(RIGHT, CODE)], execute=True, sandbox=Watched(Outcome.REFUSED, "unshare")
        )
    assert caught.value.exit_code == 3


def test_an_unknown_kind():
    with pytest.raises(ValueError, match="no scoring of kind 'sql'"):
        score_answers([answer("", Scoring("sql"))], execute=False)


def test_real_programs(sandbox):
    quick = Sandbox(Limits(cpu_s=1), sandbox.python, sandbox.see)
    loop = "def f(x):\n    while True: pass"
    found = score_answers(
        [answer(text, CODE) for text in (RIGHT, WRONG, loop, "return x + 1")],
        execute=True,
        sandbox=quick,
    )
    assert [scored.value for scored in found] == [1.0, 0.0, 0.0, 1.0]
    assert [scored.detail for scored in found] == [
        "", "failed: AssertionError", "timeout: more than 1 s of processor time", "",
    ]  # fmt: skip


def test_json_scoring_of_every_required_key():
    scoring = Scoring("json", required=("a", "b"))
    values = [
        scored.value
        for scored in score_answers(
            [answer('{"a": 1, "b": 2}', scoring), answer('{"a": 1}', scoring), answer("{}", JSON)],
            execute=False,
        )
    ]
    assert values == [1.0, 0.0, 0.0]
