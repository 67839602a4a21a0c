"""`specbench sweep`: which K pays at which load, chosen on dev prompts, confirmed on test ones."""

from __future__ import annotations

import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from specbench.cli.experiment_flags import experiment_options
from specbench.cli.rows import format_options
from specbench.errors import UsageError
from specbench.experiment.load import Flags

FORMS = ("vllm", "sglang", "profile")
OF_SWEEP = ("k", "split", "concurrency", "url", "plain_url", "metrics_urls", "arrival", "rate")
"""Fields of ``Flags`` that a sweep decides itself, or for which it has options of its own."""


@click.command()
@click.argument("experiment", required=False)
@click.option("--load", "loads", metavar="N,N", help="Requests at a time.  [default: 1]")
@click.option(
    "--k", "ks", metavar="N,N", help="Longest drafts.  [default: 1, 2, 4 ... each arm's k]"
)
@click.option("--nodes", metavar="N,N", help="Sizes of dynamic trees.  [default: each arm's own]")
@click.option("--arm", "arms", multiple=True, help="Arm that is swept.  [default: all that draft]")
@click.option("--rate", type=float, help="Requests per second, arriving by chance (Poisson).")
@click.option("--slo", metavar="NAME=TIME,...", help="Keep ttft, tpot, itl, e2e, e.g. itl=50ms.")
@click.option(
    "--prompts",
    type=click.IntRange(min=1),
    default=8,
    show_default=True,
    help="Prompts per suite of the first rung.",
)
@click.option("--max-minutes", type=click.FloatRange(min=0, min_open=True), help="Time for all.")
@click.option("--no-predict", is_flag=True, help="Measure every K in the first rung.")
@click.option("--name", help="Folder below OUT/sweeps.  [default: experiment and time]")
@click.option("--resume", metavar="SWEEP", help="Continue a sweep: folder, name or 'last'.")
@click.option("--show", metavar="SWEEP", help="Print and draw a sweep from its files, and stop.")
@click.option(
    "--emit", type=click.Choice(FORMS), help="Print what is recommended as something to paste."
)
@click.option("--plan", "plan_only", is_flag=True, help="Say what would run, and stop.")
@click.option("--yes", is_flag=True, help="Do not ask before a long run.")
@experiment_options(*OF_SWEEP)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("results"),
    show_default=True,
    help="Folder of results; sweeps lie in OUT/sweeps.",
)
@format_options
def sweep(
    experiment: str | None,
    settings: tuple[str, ...],
    out: Path,
    resume: str | None,
    show: str | None,
    emit: str | None,
    plan_only: bool,
    yes: bool,
    form: str,
    **options: Any,
) -> int:
    """Find the K that pays at every load, 0 (plain) among them.

    Candidates are every arm of EXPERIMENT at every K. They decode the same few dev prompts in
    alternation; who is slower drops out, the others get twice the prompts, until one is left or
    all prompts are used. The best K is then measured beside plain and the runner-up on the test
    split, and is recommended only where that shows that it pays.
    """
    from specbench.cli.sweep_call import SweepCall, show_sweep, sweep_name

    flags = {f.name: options.pop(f.name) for f in fields(Flags) if f.name in options}
    if show is not None:
        _refuse_beside("--show", experiment, resume)
        return show_sweep(show, out, form, emit)
    rate = flags.pop("rate", None)
    arrival = {} if rate is None else {"arrival": "poisson", "rate": rate}
    given = Flags(**flags, **arrival)
    ask = not yes and sys.stdin.isatty()
    command = [Path(sys.argv[0]).name, *sys.argv[1:]]
    if resume is not None:
        _refuse_beside("--resume", experiment, None)
        if given.given or settings or plan_only:
            raise UsageError(
                "--resume takes no other settings: a sweep goes on as it began", "leave them out"
            )
        return SweepCall.again(resume, out, command, ask, form, emit).run()
    options["name"] = sweep_name(options["name"], experiment)
    call = SweepCall.new(experiment, given, settings, out, command, ask, form, emit, **options)
    return call.plan() if plan_only else call.begin().run()


def _refuse_beside(option: str, experiment: str | None, resume: str | None) -> None:
    if experiment is not None or resume is not None:
        other = experiment if experiment is not None else "--resume"
        raise UsageError(f"{option} beside {other}", f"{option} names the sweep: leave it out")
