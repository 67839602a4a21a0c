"""Options that change an experiment, for commands that run one; they become ``Flags``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

Command = Callable[..., Any]

OPTIONS: dict[str, Command] = {
    "engine": click.option("--engine", help="Engine that decodes."),
    "target": click.option("--target", help="Target model."),
    "url": click.option(
        "--url", help="Attach to the server at this address instead of starting one."
    ),
    "plain_url": click.option(
        "--plain-url", help="The same server without speculation, for the speed-up."
    ),
    "metrics_urls": click.option(
        "--metrics-url",
        "metrics_urls",
        multiple=True,
        help="Counters of that server; repeat for replicas.  [default: URL/metrics]",
    ),
    "template": click.option("--template", help="Chat template: a file, or none for raw text."),
    "tokenizer": click.option(
        "--tokenizer", help="Model whose tokenizer and chat template render prompts."
    ),
    "drafter": click.option("--drafter", help="Drafter of the one arm beside plain."),
    "draft": click.option("--draft", help="Draft model of that arm."),
    "k": click.option("-k", "k", type=int, help="Longest draft in tokens, of every arm."),
    "rules": click.option(
        "--rule", "rules", multiple=True, help="Acceptance rule; several make several arms."
    ),
    "suites": click.option(
        "--suite", "suites", multiple=True, help="Suite name or path; may be repeated."
    ),
    "temperatures": click.option(
        "--temperature", "temperatures", type=float, multiple=True, help="May be repeated."
    ),
    "limit": click.option("--limit", type=int, help="Prompts per suite."),
    "split": click.option(
        "--split",
        help="test, dev or all. [default: all of public sets and own prompts, test of other "
        "suites]",
    ),
    "max_new_tokens": click.option("--max-new-tokens", type=int, help="Length limit of an answer."),
    "concurrency": click.option(
        "--concurrency", type=int, multiple=True, help="Requests at a time; may be repeated."
    ),
    "seed": click.option("--seed", type=int, help="Seed of prompts, orders and sampling."),
    "arrival": click.option("--arrival", help="closed, poisson or burst."),
    "rate": click.option("--rate", type=float, help="Requests per second of --arrival poisson."),
    "repeats": click.option("--repeats", type=int, help="Repeats of every prompt."),
    "allow_lossy": click.option(
        "--allow-lossy",
        is_flag=True,
        default=None,
        help="Let rules that change the output stand beside lossless ones, marked and priced.",
    ),
}
"""Field of ``Flags`` -> its option."""


def experiment_options(*without: str) -> Callable[[Command], Command]:
    """``--set`` as ``settings``, and every option of ``OPTIONS`` but these fields."""

    def add(command: Command) -> Command:
        for name in reversed(OPTIONS):
            if name not in without:
                command = OPTIONS[name](command)
        return click.option(
            "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Override any key."
        )(command)

    return add
