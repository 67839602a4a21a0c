"""`specbench gate`: has it become worse? The answer is the exit code."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from specbench.cli.out import assume_same_option, out_option
from specbench.cli.rows import format_options, write
from specbench.errors import UsageError

if TYPE_CHECKING:
    from specbench.results.gate.gate import Gated
    from specbench.results.gate.rules import GateRules

NEUTRAL, FAILED, UNDECIDED = 0, 4, 5
ON_INCONCLUSIVE = {"fail": FAILED, "pass": 0, "neutral": UNDECIDED}


@click.command()
@click.argument("new", required=False)
@click.option("--baseline", "name", metavar="NAME", help="Named by `specbench baseline set`.")
@click.option(
    "--base",
    metavar="RUN",
    help="A run, or an arm as RUN:ARM, instead of --baseline; with --paired an arm.",
)
@click.option(
    "--paired",
    metavar="EXPERIMENT",
    help="Measure two arms of this experiment now, in alternation, until it is decided.",
)
@click.option("--new", "arm", metavar="ARM", help="With --paired: the arm held against --base.")
@click.option(
    "--max-minutes",
    type=click.FloatRange(min=0, min_open=True),
    default=20.0,
    show_default=True,
    help="With --paired: what is not decided by then stays so.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="With --paired: override any key of the experiment.",
)
@click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    help="gate.toml: what is checked, and how much worse it may be.",
)
@click.option(
    "--check",
    "checks",
    multiple=True,
    metavar="METRIC=SHARE",
    help="A check instead of gate.toml's, as accept_length=2%; may be repeated.",
)
@click.option(
    "--calibrate",
    type=click.IntRange(min=1),
    metavar="N",
    help="Run the baseline's experiment N times more and keep how much its runs differ.",
)
@click.option("--allow", "allowed", multiple=True, metavar="KEY", help="A key that may differ.")
@assume_same_option
@click.option(
    "--on-inconclusive",
    type=click.Choice(list(ON_INCONCLUSIVE)),
    default="neutral",
    show_default=True,
    help="Exit code where the data cannot decide: 4, 0 or 5.",
)
@click.option(
    "--junit",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write the checks to this file, as JUnit XML.",
)
@click.option(
    "--summary",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also append a Markdown summary to this file, for a pull request.",
)
@out_option
@format_options
def gate(
    new: str | None,
    name: str | None,
    base: str | None,
    paired: str | None,
    arm: str | None,
    max_minutes: float,
    settings: tuple[str, ...],
    config: Path | None,
    checks: tuple[str, ...],
    calibrate: int | None,
    allowed: tuple[str, ...],
    assume_same: bool,
    on_inconclusive: str,
    junit: Path | None,
    summary: Path | None,
    out: Path,
    form: str,
) -> int:
    """Hold NEW, a run or RUN:ARM, against a baseline.

    Fidelity and success are always checked, and by default accept length (2 % worse allowed) and
    speed-up (5 %). A check fails where it is surely worse than allowed, passes where it surely is
    not, and is not decided otherwise. With --paired the run is made here and ends once it is
    decided. Exit codes: 0 passed, 4 failed, 5 not decided, 6 not comparable.
    """
    for path in (junit, summary):
        if path is not None and not path.absolute().parent.is_dir():
            raise UsageError(f"{path}: there is no such folder", "name one that exists")
    if calibrate is not None:
        return _calibrate(name, new, calibrate, out)
    if paired is not None or arm is not None or settings:
        asked = (paired, base, arm) if new is None and name is None else None
        rules = _rules(config, checks)
        found = [_paired(asked, rules, max_minutes, settings, out)]
    elif new is None or (name is None) == (base is None):
        raise UsageError(
            "what is held against what?",
            "type: specbench gate NEW --baseline NAME, or specbench gate NEW --base RUN",
        )
    else:
        found = _gated(new, name, base, _rules(config, checks), out, allowed, assume_same)
    _write(found, form, junit, summary)
    return _code(found, on_inconclusive)


def _paired(
    asked: tuple[str | None, str | None, str | None] | None,
    rules: GateRules,
    max_minutes: float,
    settings: tuple[str, ...],
    out: Path,
) -> Gated:
    """What two arms come to that are measured now; ``asked`` is the experiment, base and new."""
    from specbench.cli.paired import run_paired

    experiment, base, new = asked or (None, None, None)
    if experiment is None or base is None or new is None:
        raise UsageError(
            "--paired, --base and --new belong together, with neither NEW nor --baseline",
            "type: specbench gate --paired EXPERIMENT --base ARM --new ARM",
        )
    return run_paired(experiment, base, new, rules, max_minutes, settings, out)


def _rules(config: Path | None, checks: tuple[str, ...]) -> GateRules:
    from specbench.results.gate.rules import DEFAULT, checks_of, read_rules

    rules = DEFAULT if config is None else read_rules(config)
    return rules.model_copy(update={"check": checks_of(checks)}) if checks else rules


def _gated(
    new: str,
    name: str | None,
    base: str | None,
    rules: GateRules,
    out: Path,
    allowed: tuple[str, ...],
    assume_same: bool,
) -> list[Gated]:
    from specbench.results.compare.sides import open_run
    from specbench.results.gate.baselines import find_baseline
    from specbench.results.gate.gate import gate as gate_of

    again = []
    if name is not None:
        known = find_baseline(name, out)
        base, again = str(out / known.run), [open_run(run, out) for run in known.again]
    assert base is not None
    held, asked = open_run(base, out), open_run(new, out)
    if name is not None and asked.asked:
        # The same arm of the baseline.
        held = replace(held, asked=asked.asked)
    return gate_of(held, asked, rules, again=again, lifted=allowed, assume_same=assume_same)


def _write(found: list[Gated], form: str, junit: Path | None, summary: Path | None) -> None:
    from specbench.cli.pairs import write_pairs
    from specbench.report.gated import gate_grid, gate_junit, gate_markdown, heading, records

    if form in ("csv", "json"):
        write([row for one in found for row in records(one)], form)
    elif form == "md":
        click.echo(gate_markdown(found))
    else:
        write_pairs((heading(one), gate_grid(one)) for one in found)
    if junit is not None:
        junit.write_text(gate_junit(found), "utf-8")
    if summary is not None:
        with summary.open("a", encoding="utf-8") as file:
            file.write(gate_markdown(found) + "\n")


def _code(found: list[Gated], on_inconclusive: str) -> int:
    from specbench.results.gate.decide import Outcome
    from specbench.results.gate.gate import worst

    outcome = worst([one.outcome for one in found])
    if outcome is Outcome.INCONCLUSIVE:
        return ON_INCONCLUSIVE[on_inconclusive]
    return FAILED if outcome is Outcome.FAIL else NEUTRAL


def _calibrate(name: str | None, new: str | None, count: int, out: Path) -> int:
    from specbench.cli.run import run
    from specbench.results.gate.baselines import add_again, find_baseline
    from specbench.results.store import RunFolder

    if name is None or new is not None:
        raise UsageError(
            "--calibrate is for a baseline", "type: specbench gate --calibrate 3 --baseline NAME"
        )
    known = find_baseline(name, out)
    experiment = RunFolder(out / known.run).experiment
    for number in range(count):
        click.echo(f"A/A run {number + 1} of {count}", err=True)
        before = set(out.iterdir())
        code = run.main([str(experiment), "--out", str(out), "--yes"], standalone_mode=False)
        if code:
            return int(code)
        (made,) = set(out.iterdir()) - before
        add_again(name, made.name, out)
    return 0
