"""The `specbench` command: a group whose verbs are imported when they are called.

Nothing heavy is imported here, so that `specbench --help` answers at once and works where torch
is not installed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import NoReturn

import click

from specbench.catalog import nearest
from specbench.cli.errors import guarded


@dataclass(frozen=True, slots=True)
class Verb:
    """Where a verb's click command lives, and the line that the overview shows for it."""

    target: str
    summary: str

    def load(self) -> click.Command:
        """Import the command."""
        module, _, attribute = self.target.partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command), self.target
        return command


VERBS = {
    "run": Verb("specbench.cli.run:run", "Run an experiment and show its table."),
    "show": Verb("specbench.cli.show:show", "Show the table of a finished run."),
    "compare": Verb("specbench.cli.compare:compare", "Compare two runs, or two arms, in pairs."),
    "sweep": Verb("specbench.cli.sweep:sweep", "Find the K that pays at every load."),
    "gate": Verb("specbench.cli.gate:gate", "Fail where a run is worse than its baseline."),
    "baseline": Verb(
        "specbench.cli.baseline:baseline", "Name the runs that others are held against."
    ),
    "report": Verb("specbench.cli.report:report", "Draw a run: one page of HTML, or its charts."),
    "leaderboard": Verb(
        "specbench.cli.leaderboard:leaderboard", "Rank all runs of a folder that measured the same."
    ),
    "import": Verb(
        "specbench.cli.importing:import_", "Take in results of other tools; they are never ranked."
    ),
    "rescore": Verb(
        "specbench.cli.rescore:rescore", "Rebuild all tables of a run from its traces."
    ),
    "fidelity": Verb(
        "specbench.cli.fidelity:fidelity", "Judge whether a run's output is still the target's."
    ),
    "replay": Verb(
        "specbench.cli.replay:replay", "Score drafts on recorded outputs, without decoding."
    ),
    "train": Verb("specbench.cli.train:train", "Train a drafting head or a draft model."),
    "laws": Verb(
        "specbench.cli.laws:laws", "Check the output law of an acceptance sampler, ours or yours."
    ),
    "roofline": Verb(
        "specbench.cli.roofline:roofline", "Say what speculation can bring on a device, unrun."
    ),
    "list": Verb("specbench.cli.list:list_", "List drafters, rules, engines, suites, metrics."),
    "models": Verb("specbench.cli.models:models", "Fetch and inspect models."),
    "suites": Verb("specbench.cli.suites:suites", "Check and describe suites of prompts."),
    "doctor": Verb("specbench.cli.doctor:doctor", "Show what can run here and what is missing."),
}


class LazyGroup(click.Group):
    """A click group over ``VERBS`` that imports a verb only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Verbs in the order of a first session."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The verb's command, imported now; None where there is no such verb."""
        return VERBS[cmd_name].load() if cmd_name in VERBS else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's, but an unknown verb shows the nearest ones."""
        word = args[0]
        if word not in VERBS and not word.startswith("-"):
            raise click.UsageError(f"unknown verb {word!r}; {nearest(word, list(VERBS))}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The overview, from ``VERBS`` alone."""
        with formatter.section("Verbs"):
            formatter.write_dl([(name, verb.summary) for name, verb in VERBS.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done, 1 failed, 2 wrong usage, 3 prerequisite missing, 4 gate failed, "
    "5 inconclusive, 6 not comparable, 130 interrupted.",
)
@click.version_option(package_name="specbench-llm", prog_name="specbench")
def cli() -> None:
    """Measure speculative decoding of language models, and whether it works.

    The answer goes to stdout, progress to stderr. Start with `specbench run quickstart`.
    """


def call(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    return guarded(lambda: cli.main(list(arguments), prog_name="specbench", standalone_mode=False))


def main() -> NoReturn:
    """The console script."""
    sys.exit(call(sys.argv[1:]))
