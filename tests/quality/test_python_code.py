"""Programs are executed here only with answers written for these tests."""

import ast
import textwrap

import pytest

from specbench.core.suite import Scoring
from specbench.quality.python_blocks import fenced
from specbench.quality.python_code import completion, header, program
from specbench.suites.loader import load_suite
from tests.quality.made import CODE, HEADER

SCORED = [prompt for prompt in load_suite("code").prompts if prompt.scoring is not None]


def passes(text, conversation=(HEADER,), scoring=CODE):
    source = program(text, conversation, scoring)
    assert source is not None, text
    try:
        exec(compile(source, "answer.py", "exec"), {"__name__": "answer"})
    except AssertionError:
        return False
    return True


G4 = "    return x+1\n\ndef g():\n  pass<|endoftext|>"


def test_g4_completion_of_a_body():
    assert completion(G4) == "    return x+1"
    assert completion(f"```python\n{G4}\n```") == "    return x+1"
    assert passes(G4)
    assert passes(f"```python\n{G4}\n```")


@pytest.mark.parametrize("stop", ["\nclass A:", "\nprint(f(1))", "\nif True:", "\n# end", "\n@d"])
def test_the_earliest_stop_counts(stop):
    assert completion(f"    return x+1{stop}\n    y\n\ndef g(): pass<|im_end|>") == "    return x+1"


def test_leading_spaces_stay_and_blank_lines_do_not_end_a_body():
    assert completion("\n    a = 1\n\n    return a\n") == "    a = 1\n\n    return a"
    assert completion("") == ""


@pytest.mark.parametrize(
    "text",
    [
        "def f(x):\n    return x + 1",
        "Sure:\n\n```python\ndef f(x):\n    return x + 1\n```\nIt adds one.",
        "```\ndef f(x):\n    return x + 1\n```",
        "~~~py\ndef f(x):\n    return x + 1\n~~~",
        "1. Like this:\n\n   ```python\n   def f(x):\n       return x + 1\n   ```",
        "Here it is:\n\ndef f(x):\n    return x + 1\n\nThis adds one to x.",
        "```python\r\ndef f(x):\r\n    return x + 1\r\n```\r\n",
        "return x + 1",
        "y = x\nreturn y + 1",
        "y = x\n    return y + 1",
        "f = lambda x: x + 1",
        "from __future__ import annotations\n\ndef f(x: Later):\n    return x + 1",
        "import math\n\n@staticmethod\ndef f(x):\n    return math.floor(x) + 1",
        "ONE = 1; TWO = 2\ndef f(x):\n    return x + ONE",
    ],
)
def test_ways_to_give_the_same_answer(text):
    assert passes(text)


WRONG, RIGHT = "def f(x):\n    return x\n", "def f(x):\n    return x + 1\n"


def fence(*pieces):
    return "\nor\n".join(f"```python\n{piece}```" for piece in pieces)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(fence(WRONG, RIGHT), id="the broken code is quoted first"),
        pytest.param(fence(RIGHT) + "\n```python\ndef f(x):\n    retu", id="cut second version"),
        pytest.param(fence(f"{RIGHT}print(undefined)\nassert f(1) == 3\n"), id="examples of use"),
        pytest.param(fence(RIGHT, "y = g(2)\n"), id="an example in a fence of its own"),
        pytest.param(
            fence("ONE = 1\ndef h():\n    return ONE\n", "def f(x):\n    return x + h()\n"),
            id="a part of the answer in another fence",
        ),
        pytest.param(f"```python\n{RIGHT}\nprint(f(", id="cut after the function"),
    ],
)
def test_which_code_is_the_answer(text):
    assert passes(text)


@pytest.mark.parametrize("text", [fence(WRONG), "```python\ndef f(x):\n    y = x\n    return y +"])
def test_wrong_and_cut_functions_fail(text):
    assert not passes(text)


@pytest.mark.parametrize(
    "text", ["", "   \n", "I cannot do this, sorry.", "def g(x):", "```python\n```", "x" * 5000]
)
def test_answers_without_the_function(text):
    assert program(text, ("Write f.",), CODE) is None


@pytest.mark.parametrize("text", ["", "# to do", "```python\n```", "(" * 3000])
def test_a_header_alone_is_no_answer(text):
    conversation = ('def f(x):\n    """Add one."""\n',)
    assert program(text, conversation, CODE) is None


def test_deep_code_is_no_reason_to_stop():
    assert passes(f"def f(x):\n    return x + 1 + {' + '.join(['0'] * 900)}")
    assert program(f"def f(x):\n    return {'-' * 100_000}x", (HEADER,), CODE) is None


def test_the_prompt_supplies_what_an_answer_leaves_out():
    shown = (
        "Fix `f`:\n\n```python\nimport math\n\nSTEP = 1\n\n\ndef step():\n    return STEP\n\n\n"
        "def f(x):\n    return math.floor(x)\n```\n\n```\nTraceback: boom\n```",
        "and keep it short",
    )
    assert passes("```python\ndef f(x):\n    return math.floor(x) + step()\n```", shown)
    assert passes(
        "```python\ndef step():\n    return 1\n\ndef f(x):\n    return x + step()\n```", shown
    )


def test_header_of_a_prompt():
    wanted = 'def f(\n    x,\n):\n    """Doc.\n\n    More.\n    """'
    shown = f"```python\n{wanted}\n    return x\n```\nThanks"
    assert header(("old", shown), "f") == wanted
    assert header(("def f(x):  # bare\n\nno fence",), "f") == "def f(x):  # bare"
    assert header(("def f(x):\n    y = 1\n    return y",), "f") == "def f(x):"
    assert header(("async def f(x):\n    pass",), "f") == "async def f(x):"
    assert header(("def ff(x): pass",), "f") is None
    assert header(("def f(x: broken",), "f") is None


def test_fences():
    found = fenced("a\n```py\n1\n```\nb\n````\n```\n2\n````\n~~~\n3")
    assert [(block.code, block.closed) for block in found] == [
        ("1\n", True),
        ("```\n2\n", True),
        ("3", False),
    ]


def body_of(prompt):
    """Only the body of the reference's function, or None where there is more than one statement."""
    tree = ast.parse(prompt.reference)
    if len(tree.body) > 1 or len(prompt.turns) > 1:
        return None
    (function,) = tree.body
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return "\n".join(prompt.reference.split("\n")[body[0].lineno - 1 : function.end_lineno])


@pytest.mark.parametrize("prompt", SCORED, ids=lambda prompt: prompt.id)
def test_every_reference_of_the_code_suite_passes(prompt):
    name, whole, body = prompt.scoring.entry_point, prompt.reference, body_of(prompt)
    forms = [
        whole,
        f"Sure! Here it is:\n\n```python\n{whole}```\n\nExample:\n\n```python\nx = {name}(0)\n```",
        f"Here is the code:\n\n{whole}\n\nIt works because of this.",
        f"```python\n{whole}\n\nprint({name}(",
    ]
    if body is not None:
        forms += [
            f"{body}\n\ndef g():\n  pass<|endoftext|>",
            f"```python\n{body}\n```\nThat is all.",
            body.lstrip(),
            textwrap.dedent(body),
        ]
    for text in forms:
        assert passes(text, prompt.turns, prompt.scoring), text


def test_the_tests_of_a_prompt_fail_a_wrong_answer():
    scoring = Scoring("python", entry_point="f", tests="assert f(1) == 3\n")
    assert not passes("def f(x):\n    return x + 1", scoring=scoring)
