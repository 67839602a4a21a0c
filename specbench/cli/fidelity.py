"""`specbench fidelity`: is the output of a run still distributed as the target's?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from specbench.cli.out import out_option
from specbench.cli.rows import format_options, write
from specbench.errors import UsageError
from specbench.fidelity.verdict import ALPHA
from specbench.results.read import find_run, read_run

if TYPE_CHECKING:
    from specbench.experiment.selftest import SelfTest

BROKEN, INCONCLUSIVE = 4, 5
EXIT = {"passed": 0, "FAILED": BROKEN, "undecided": INCONCLUSIVE}
CONSOLE = ("temperature", "arm", "test", "n", "statistic", "p", "detectable", "verdict", "note")


@click.command()
@click.argument("run", required=False)
@click.option(
    "--reference",
    metavar="MODEL",
    help="Judge by a replay of the recorded tokens through MODEL in float32.",
)
@click.option("--outputs", is_flag=True, help="Compare whole outputs with plain's as well.")
@click.option("--alpha", type=float, default=ALPHA, show_default=True, help="False alarms allowed.")
@click.option(
    "--selftest",
    is_flag=True,
    help="Repeat right samplers and planted defects instead: level and power of the tests.",
)
@click.option(
    "--rows",
    type=click.Choice(["synthetic", "model", "all"]),
    default="all",
    show_default=True,
    help="Self-test: rows that samplers draw from.",
)
@click.option("--runs", type=int, help="Self-test: repeats of every sampler.")
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    help="Self-test: random seed.",
)
@out_option
@format_options
def fidelity(
    run: str | None,
    reference: str | None,
    outputs: bool,
    alpha: float,
    selftest: bool,
    rows: str,
    runs: int | None,
    seed: int,
    out: Path,
    form: str,
) -> int:
    """Judge RUN: a folder, a run id, or 'last'.

    Exit code 4 where an arm that claims to be lossless is not, 5 where no arm could be judged.
    """
    if selftest:
        if run is not None:
            raise UsageError(f"--selftest judges the tests, not run {run}", "leave one of them out")
        if reference is not None or outputs:
            raise UsageError("--selftest takes neither --reference nor --outputs", "leave them out")
        return _selftest(rows, runs, seed, form)
    if run is None:
        raise UsageError("no run given", "give a run, 'last', or --selftest")
    if not 0 < alpha < 1:
        raise UsageError(f"--alpha {alpha:g} is not between 0 and 1", "write for example 0.01")
    return _judge(find_run(run, out).path, reference, outputs, alpha, form)


def _judge(path: Path, reference: str | None, outputs: bool, alpha: float, form: str) -> int:
    from specbench.experiment.fidelity.report import report
    from specbench.results.store import RunFolder

    recorded = read_run(RunFolder(path))
    model = None
    if reference is not None:
        from specbench.engines.replay import Replay
        from specbench.experiment.rebuild import run_prompts

        run_prompts(recorded.manifest)  # a changed suite is refused before a model loads
        click.echo(f"loading {reference}", err=True)
        target = recorded.manifest.experiment.get("target")
        template = target.get("template") if isinstance(target, dict) else None
        policy = recorded.manifest.identity.system_policy
        model = Replay({"model": reference, "system_policy": policy, "template": template})

    def progress(done: int, total: int) -> None:
        if done == total or done % 25 == 0:
            click.echo(f"replayed {done} of {total} outputs", err=True)

    found = report(recorded, model, alpha=alpha, outputs=outputs, on_progress=progress)
    if form == "console":
        for note in found.notes:
            click.echo(note)
        for sentence in found.sentences:
            click.echo(sentence)
        click.echo()
    several = len({line.concurrency for line in found.lines}) > 1
    shown = (*CONSOLE[:1], "concurrency", *CONSOLE[1:]) if several else CONSOLE
    write([_rounded(asdict(line), form) for line in found.lines], form, shown)
    if form == "console":
        click.echo(f"\nfidelity of lossless arms: {found.outcome}")
    return EXIT[found.outcome]


def _rounded(row: dict[str, object], form: str) -> dict[str, object]:
    """Three digits on a console; files keep all."""
    if form != "console":
        return row
    return {
        name: f"{value:.3g}" if isinstance(value, float) else value for name, value in row.items()
    }


def _selftest(rows: str, runs: int | None, seed: int, form: str) -> int:
    from specbench.experiment import selftest

    if runs is not None and runs < 1:
        raise UsageError(f"--runs {runs}: at least 1 is needed", "write for example --runs 200")
    found: list[SelfTest] = []

    def note(text: str) -> None:
        click.echo(text, err=True)

    if rows in ("synthetic", "all"):
        found.append(selftest.synthetic(seed, runs or selftest.SYNTHETIC_RUNS, note))
    if rows in ("model", "all"):
        found.append(selftest.with_model(selftest.MODEL, seed, runs or selftest.MODEL_RUNS, note))
    if form == "console":
        for one in found:
            click.echo(f"{one.setting}\n")
            write(_table(one), form)
            click.echo(f"\n{one.verdict}\n")
    else:
        write([{"setting": one.setting, **row} for one in found for row in _table(one)], form)
    return 0 if all(one.ok for one in found) else BROKEN


def _table(found: SelfTest) -> Sequence[dict[str, object]]:
    right: list[dict[str, object]] = [
        {
            "sampler": one.sampler,
            "runs": one.runs,
            "tokens": one.tokens,
            "result": f"{one.alarms} false alarms",
        }
        for one in found.levels
    ]
    return right + [
        {
            "sampler": one.sampler,
            "runs": one.runs,
            "tokens": one.spread,
            "limit": one.limit,
            "found": f"{one.found:.0%}",
            "result": "found in time" if one.good else "NOT found in time",
        }
        for one in found.powers
    ]
