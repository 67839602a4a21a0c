"""`specbench fidelity`: is the output of a run still distributed as the target's?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from specbench.cli.out import out_option
from specbench.cli.rows import format_options, simple, write
from specbench.core.manifest import Manifest
from specbench.errors import UsageError
from specbench.fidelity.verdict import ALPHA
from specbench.results.read import find_run, read_run

if TYPE_CHECKING:
    from specbench.experiment.reference import Reference
    from specbench.experiment.selftest import SelfTest

BROKEN, INCONCLUSIVE = 4, 5
EXIT = {"passed": 0, "FAILED": BROKEN, "undecided": INCONCLUSIVE}
CONSOLE = ("temperature", "arm", "test", "n", "statistic", "p", "detectable", "result", "note")
SERVER = "server:"


@click.command()
@click.argument("run", required=False)
@click.option(
    "--reference",
    metavar="MODEL|server:URL",
    help="Judge by a replay of the recorded tokens through MODEL in float32, or by the "
    "log-probabilities of the plain server at URL.",
)
@click.option(
    "--draft",
    metavar="MODEL",
    help="Draft model that the engine may have used, for --reference MODEL: finds acceptance that "
    "leans towards its drafts.",
)
@click.option(
    "--reference-engine",
    metavar="ENGINE",
    help="Kind of the server behind server:URL: vllm, sglang or llamacpp. [default: the run's]",
)
@click.option(
    "--top",
    type=click.IntRange(min=2),
    help="Tokens per position to ask that server for. [default: as many as its kind allows]",
)
@click.option(
    "--tokenizer",
    metavar="MODEL",
    help="Model whose tokenizer and chat template make the prompts for that server. [default: the "
    "run's]",
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
    help="Self-test: rows that samplers draw from. [default: all]",
)
@click.option("--runs", type=int, help="Self-test: repeats of every sampler.")
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    help="Self-test: random seed. [default: 1]",
)
@out_option
@format_options
def fidelity(
    run: str | None,
    reference: str | None,
    draft: str | None,
    reference_engine: str | None,
    top: int | None,
    tokenizer: str | None,
    outputs: bool,
    alpha: float,
    selftest: bool,
    rows: str | None,
    runs: int | None,
    seed: int | None,
    out: Path,
    form: str,
) -> int:
    """Judge RUN: a folder, a run id, or 'last'.

    Exit code 4 where an arm that claims to be lossless is not, 5 where no arm could be judged.
    """
    judging = {
        "--reference": reference,
        "--draft": draft,
        "--reference-engine": reference_engine,
        "--top": top,
        "--tokenizer": tokenizer,
        "--outputs": outputs or None,
    }
    testing = {"--rows": rows, "--runs": runs, "--seed": seed}
    if selftest:
        if run is not None:
            raise UsageError(f"--selftest judges the tests, not run {run}", "leave one of them out")
        _refuse(judging, "--selftest takes no")
        return _selftest(rows or "all", runs, 1 if seed is None else seed, form)
    _refuse(testing, "without --selftest there is no use for")
    if not (reference or "").startswith(SERVER):
        only = {name: judging[name] for name in ("--reference-engine", "--top", "--tokenizer")}
        _refuse(only, f"without --reference {SERVER}URL there is no use for")
    if reference is None or reference.startswith(SERVER):
        _refuse({"--draft": draft}, "without --reference MODEL there is no use for")
    if run is None:
        raise UsageError("no run given", "give a run, 'last', or --selftest")
    if not 0 < alpha < 1:
        raise UsageError(f"--alpha {alpha:g} is not between 0 and 1", "write for example 0.01")
    asked = None if reference is None else Asked(reference, draft, reference_engine, top, tokenizer)
    return _judge(find_run(run, out).path, asked, outputs, alpha, form)


def _refuse(options: Mapping[str, object], why: str) -> None:
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise UsageError(f"{why} {', '.join(given)}", f"leave {' and '.join(given)} out")


@dataclass(frozen=True, slots=True)
class Asked:
    """The reference as it was named on the command line."""

    name: str
    draft: str | None
    engine: str | None
    top: int | None
    tokenizer: str | None


def _judge(path: Path, asked: Asked | None, outputs: bool, alpha: float, form: str) -> int:
    from specbench.experiment.fidelity.report import report
    from specbench.results.store import RunFolder

    recorded = read_run(RunFolder(path))
    model = None if asked is None else _open_reference(recorded.manifest, asked)

    def progress(done: int, total: int) -> None:
        if done == total or done % 25 == 0:
            click.echo(f"replayed {done} of {total} outputs", err=True)

    found = report(recorded, model, alpha=alpha, outputs=outputs, on_progress=progress)
    if form == "json":
        click.echo(json.dumps(simple(found), indent=2, ensure_ascii=False))
        return EXIT[found.outcome]
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
        click.echo(f"\n{found.told}")
    return EXIT[found.outcome]


def _open_reference(manifest: Manifest, asked: Asked) -> Reference:
    from specbench.experiment.rebuild import run_prompts

    run_prompts(manifest)  # a changed suite is refused before a model loads
    click.echo(f"loading {asked.name}", err=True)
    target = manifest.experiment.get("target")
    own = dict(target) if isinstance(target, Mapping) else {}
    policy = manifest.identity.system_policy
    if asked.name.startswith(SERVER):
        from specbench.engines.scoring.reference import ServerReference

        table = manifest.experiment.get("server")
        server = dict(table) if isinstance(table, Mapping) else {}
        if asked.tokenizer is not None:
            server["tokenizer"] = asked.tokenizer
        settings = {"target": own, "server": server, "system_policy": policy}
        kind = asked.engine or str(manifest.engine.get("name", ""))
        url = asked.name.removeprefix(SERVER)
        found = ServerReference(url, kind, settings, top=asked.top)
        click.echo(found.describe(), err=True)
        return found
    from specbench.engines.replay import Replay

    named = {"model": asked.name, "system_policy": policy, "template": own.get("template")}
    return Replay(named, None if asked.draft is None else {"model": asked.draft})


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
