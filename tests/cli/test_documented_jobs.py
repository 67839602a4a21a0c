"""The jobs of docs/ci.md: their YAML parses, their commands and experiments are real ones."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import click
import pytest

from specbench.cli.main import cli
from specbench.experiment.load import Flags, builtin_names, load_experiment
from specbench.experiment.schema import check
from specbench.results.gate.rules import checks_of, read_rules

yaml = pytest.importorskip("yaml")

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "ci.md").read_text()


def fenced(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)


JOBS = [yaml.safe_load(text) for text in fenced("yaml")]


def scripts(value):
    """Every script in a job, of GitHub (``run``) or GitLab (``script``)."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "run":
                yield inner
            elif key == "script":
                yield from inner
            else:
                yield from scripts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from scripts(inner)


def commands(text):
    """The words of every command line of specbench in a shell script."""
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line.split(" #")[0])
        if words and words[0] == "specbench":
            yield words[1:]


COMMANDS = [
    words
    for text in [*fenced("bash"), *(script for job in JOBS for script in scripts(job))]
    for words in commands(text)
]


def parsed(words):
    """The command behind the words and its parameters; raises where it does not take them."""
    command, context = cli, click.Context(cli)
    while isinstance(command, click.Group):
        _, command, words = command.resolve_command(context, list(words))
        context = command.make_context(command.name, list(words), parent=context)
        words = [*context._protected_args, *context.args]
    return command.name, context.params


def test_there_are_a_hosted_a_gitlab_and_a_gpu_job():
    assert len(JOBS) == 3
    assert [len([*scripts(job)]) > 0 for job in JOBS] == [True] * 3
    assert {tuple(words[:1]) for words in COMMANDS} >= {("run",), ("gate",), ("models",)}


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_line_is_one_that_there_is(words):
    name, params = parsed(words)
    if name == "gate":
        assert checks_of(params["checks"]) is not None
    if name == "run" and params["experiment"] != "EXPERIMENT":
        assert params["experiment"] in builtin_names()


def test_a_wrong_option_would_be_found():
    with pytest.raises(click.UsageError, match="--max-minute"):
        parsed(["gate", "--max-minute", "x"])


def test_the_experiment_of_the_gpu_job_has_the_arms_that_its_gate_names():
    (text,) = [text for text in fenced("toml") if "engine" in text]
    experiment = check(tomllib.loads(text), "docs/ci.md")
    (params,) = [
        found
        for name, found in map(parsed, COMMANDS)
        if name == "gate" and found["paired"] not in (None, "EXPERIMENT")
    ]
    assert params["paired"].endswith(f"{experiment.name}.toml")
    assert {params["base"], params["arm"]} == set(experiment.arm)
    assert [arm.name for arm in experiment.arms()] == ["plain", "old", "new"]


def test_the_rules_shown_are_rules(tmp_path):
    (text,) = [text for text in fenced("toml") if "[[check]]" in text]
    (tmp_path / "gate.toml").write_text(text)
    assert [one.metric for one in read_rules(tmp_path / "gate.toml").check] == [
        "accept_length",
        "speedup",
    ]


def test_the_experiment_of_the_jobs_is_as_the_page_says():
    workload = load_experiment("ci", Flags()).experiment.workload
    assert (workload.split, workload.limit, workload.suites) == ("dev", 8, ["code", "chat"])
    assert len(workload.temperatures) == 2
