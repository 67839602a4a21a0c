"""Prompts about the standard library: from modules written here, and from the real one."""

import ast
import shutil
import sysconfig
from itertools import pairwise
from pathlib import Path

import pytest

from specbench.train.data.library import CODE_TASKS, MOST_CHARACTERS, TEXT_TASKS, library_prompts

STDLIB = Path(sysconfig.get_path("stdlib"))
FENCE = "```python\n"

ADD = '''\
def add(left, right):
    """Add two numbers.

    Nothing is rounded.
    """
    total = left + right
    return total
'''
ADD_HEAD = '''\
def add(left, right):
    """Add two numbers.

    Nothing is rounded.
    """
'''
ADD_BARE = """\
def add(left, right):
    total = left + right
    return total
"""


@pytest.fixture
def library(tmp_path):
    """Write modules, path -> text, and return their folder."""

    def write(**modules):
        for name, text in modules.items():
            path = tmp_path / f"{name.replace('__', '/')}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return tmp_path

    return write


def asked(root, kind="code", seeds=range(60)):
    """Every prompt that some seed gives."""
    return {text for seed in seeds for _, text in library_prompts(kind, 99, seed, root)}


def fenced(text):
    return text.partition(FENCE)[2].partition("```")[0]


def test_every_task_shows_the_right_part_of_a_function(library):
    found = asked(library(m=ADD))
    parts = {"head": ADD_HEAD, "code": ADD, "bare": ADD_BARE}
    parts = {name: text.rstrip("\n") for name, text in parts.items()}
    expected = {task.format(name="add", summary="Add two numbers.", **parts) for task in CODE_TASKS}
    assert found == expected


def test_a_method_moves_to_the_margin_and_loses_no_text(library):
    body = ADD.replace("    Nothing is rounded.", "Nothing is rounded.")
    method = "class C:\n    @property\n" + "".join(
        line if line.startswith("Nothing") else f"    {line}" for line in body.splitlines(True)
    )
    found = asked(library(m=method))
    assert found == asked(library(m=body))
    assert any("\nNothing is rounded.\n" in text for text in found)


def test_a_form_feed_ends_no_line(library):
    assert asked(library(m="\x0c\n\x0c\nx = 1\n" + ADD)) == asked(library(m=ADD))


@pytest.mark.parametrize(
    "text",
    [
        ADD.replace('    """Add two numbers.\n\n    Nothing is rounded.\n    """\n', ""),
        ADD.replace("def add", "def __add__"),
        'def stub():\n    """Say nothing.\n    """\n',
        ADD.replace("    return", "    total += 1\n" * 30 + "    return"),
        ADD.replace("    return", "    # " + "long " * 300 + "\n    return"),
    ],
    ids=["no docstring", "special", "no body", "many lines", "many characters"],
)
def test_functions_that_are_left_out(library, text):
    assert asked(library(m=text)) == set()


@pytest.mark.parametrize(
    "text",
    [b"def f(:\n", b"\xff\xfe", b"x = 1\x00", b"x = " + b"(" * 5000],
    ids=["syntax", "encoding", "null", "depth"],
)
def test_files_that_cannot_be_parsed_are_skipped(library, text):
    assert asked(library(a=text, m=ADD)) == asked(library(m=ADD))


def test_files_that_cannot_be_read_are_skipped(library):
    root = library(m=ADD)
    (root / "gone.py").symlink_to(root / "nowhere.py")
    assert asked(root)


def test_modules_warn_nobody(library, recwarn):
    assert asked(library(m="'\\d'\n" + ADD))
    assert not recwarn.list


def test_tests_and_installed_packages_are_no_library(library):
    names = ["test__m", "tests__m", "idle_test__m", "site-packages__m", "dist-packages__m"]
    root = library(**dict.fromkeys(names, ADD))
    assert asked(root) == set()
    assert asked(library(package__m=ADD))


def test_at_most_six_prompts_come_from_one_module(library):
    module = "\n".join(ADD.replace("add", f"add{i}") for i in range(9))
    places = [place for place, _ in library_prompts("code", 99, 0, library(m=module, other=ADD))]
    assert sorted(places) == ["m-add0", *(f"m-add{i}" for i in range(1, 6)), "other-add"]


def test_prose_is_asked_about_and_nothing_else(library):
    prose = "This text has more than sixty characters, spaces and an end of sentence."
    module = f'''"""{prose}

    Too short.

    {prose[:-1]}

    >>> example() # with sixty characters or more, and so it would be long enough.

    {"Much too long. " * 30}
    """
'''
    expected = {task.format(text=prose) for task in TEXT_TASKS}
    assert asked(library(m=module), "text") == expected


@pytest.mark.parametrize("kind", ["code", "text"])
def test_prompts_of_the_real_library(kind):
    prompts = list(library_prompts(kind, 60, 3))
    assert prompts == list(library_prompts(kind, 60, 3))
    assert prompts[:20] == list(library_prompts(kind, 20, 3))
    assert prompts[:20] != list(library_prompts(kind, 20, 4))
    assert len(prompts) == 60
    longest = max(map(len, CODE_TASKS + TEXT_TASKS))
    assert max(len(text) for _, text in prompts) <= MOST_CHARACTERS + longest


def test_fewer_where_the_library_has_no_more(library):
    assert len(list(library_prompts("code", 5, 0, library(m=ADD)))) == 1


def test_parts_of_real_functions_are_those_functions(tmp_path):
    """Against the syntax trees of the files: signature and body, with and without docstring."""
    for name in ("textwrap.py", "heapq.py", "statistics.py", "json/decoder.py", "calendar.py"):
        shutil.copy(STDLIB / name, tmp_path)
    nodes = [n for path in tmp_path.iterdir() for n in ast.walk(ast.parse(path.read_text()))]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    docs = {ast.get_docstring(node) for node in functions} - {None}
    bodies = {without_docstring(node) for node in functions}
    seen = set()
    for text in asked(tmp_path, seeds=range(12)):
        code = fenced(text)
        if not code:
            continue
        (function,) = ast.parse(code).body
        kind = next(i for i, task in enumerate(CODE_TASKS) if text.startswith(task[:20]))
        part = CODE_TASKS[kind].partition(FENCE)[2][:6]
        seen.add(part)
        assert (ast.get_docstring(function) in docs) == (part != "{bare}")
        if part != "{head}":
            assert without_docstring(function) in bodies
        else:
            assert len(function.body) == 1
    assert seen == {"{head}", "{code}", "{bare}"}


def without_docstring(node):
    rest = node.body[1:] if ast.get_docstring(node) else node.body
    return ast.dump(ast.FunctionDef(node.name, node.args, rest, [], node.returns))


def test_places_name_module_and_function():
    places = [place for place, _ in library_prompts("code", 30, 0)]
    assert all("-" in place for place in places)
    assert any(a.partition("-")[0] == b.partition("-")[0] for a, b in pairwise(places))
