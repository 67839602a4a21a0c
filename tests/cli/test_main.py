"""The command as a process or in place: exit codes, streams, laziness."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from specbench.cli import main as module
from specbench.cli.main import VERBS, Verb, call
from specbench.errors import (
    GateFailed,
    Inconclusive,
    NotComparable,
    PrerequisiteError,
    SpecbenchError,
    UsageError,
)

PROGRAM = "from specbench.cli.main import main; main()"


def run(*arguments, program=PROGRAM, **options):
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, **options
    )


@pytest.fixture
def raising(monkeypatch):
    """A verb `boom` that raises what it is told to."""

    def install(error):
        @click.command()
        def boom():
            raise error

        monkeypatch.setitem(module.VERBS, "boom", Verb(f"{__name__}:boom", "Fails."))
        monkeypatch.setattr(Verb, "load", lambda self: boom)

    return install


def test_help_lists_all_verbs_and_imports_none():
    verbs = {verb.target.partition(":")[0] for verb in VERBS.values()}
    unwanted = verbs | {"rich", "pandas", "numpy", "scipy", "pydantic", "torch"}
    program = (
        "import sys\nfrom specbench.cli.main import call\ncode = call(['--help'])\n"
        f"sys.exit(code or ' '.join({unwanted} & set(sys.modules)) or 0)"
    )
    done = run(program=program)
    assert done.returncode == 0, done.stderr
    assert all(f"  {verb} " in done.stdout for verb in VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(verb, capsys):
    assert call([verb, "--help"]) == 0
    assert f"specbench {verb}" in capsys.readouterr().out


def test_unknown_verb_names_the_nearest(capsys):
    assert call(["doktor"]) == 2
    captured = capsys.readouterr()
    assert "did you mean doctor?" in captured.err
    assert captured.out == ""


@pytest.mark.parametrize("arguments", [["--nonsense"], ["doctor", "--nonsense"], ["list"], []])
def test_wrong_usage_is_2(arguments, capsys):
    assert call(arguments) == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SpecbenchError("it broke"), 1),
        (UsageError("it broke"), 2),
        (PrerequisiteError("it broke"), 3),
        (GateFailed("it broke"), 4),
        (Inconclusive("it broke"), 5),
        (NotComparable("it broke"), 6),
    ],
)
def test_errors_carry_their_exit_code(error, code, raising, capsys):
    error.hint = "do this"
    raising(error)
    assert call(["boom"]) == code
    captured = capsys.readouterr()
    assert captured.err == "error: it broke\n  do this\n"
    assert captured.out == ""


def test_interrupt_is_130_and_one_line(raising, capsys):
    raising(KeyboardInterrupt())
    assert call(["boom"]) == 130
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_unexpected_errors_are_1_and_name_the_debug_switch(raising, capsys, monkeypatch):
    monkeypatch.delenv("SPECBENCH_DEBUG", raising=False)
    raising(ZeroDivisionError("by nought\nsecond line"))
    assert call(["boom"]) == 1
    message = capsys.readouterr().err
    assert message.startswith("error: ZeroDivisionError: by nought\n")
    assert "SPECBENCH_DEBUG=1" in message
    assert "second line" not in message


def test_debug_shows_the_traceback(raising, capsys, monkeypatch):
    monkeypatch.setenv("SPECBENCH_DEBUG", "1")
    raising(ZeroDivisionError("by nought"))
    assert call(["boom"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_a_reader_that_leaves_is_not_worth_a_message():
    pipeline = f'"{sys.executable}" -c "{PROGRAM}" --help | true'
    done = subprocess.run(["bash", "-c", pipeline], capture_output=True, text=True)
    assert done.stderr == ""


def test_version(capsys):
    assert call(["--version"]) == 0
    assert capsys.readouterr().out.startswith("specbench, version ")
