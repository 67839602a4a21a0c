"""`specbench laws`: is the output of an acceptance sampler distributed as the target's?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from specbench import catalog
from specbench.cli.rows import format_options, simple, write
from specbench.errors import GateFailed, Inconclusive, PrerequisiteError, UsageError
from specbench.laws.junit import junit as junit_document
from specbench.laws.outcome import Outcome, Status

EXACT = "uniforms"
SAMPLED = ("generator", "counts")
CONSOLE = ("sampler", "check", "case", "status", "detail")


@click.command()
@click.argument("sampler", required=False, metavar="[MODULE:FUNCTION]")
@click.option(
    "--adapter",
    type=click.Choice([EXACT, *SAMPLED]),
    help="How the sampler is called; docs/adding.md has the signatures.  [default: uniforms]",
)
@click.option("--rule", "rules", multiple=True, help="A rule of the catalogue; may be repeated.")
@click.option("--device", help="Where the sampler's tensors live.  [default: cpu]")
@click.option(
    "--samples",
    type=click.IntRange(min=1),
    help="Rounds per table, for adapters that sample.  [default: 200000]",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of everything random.")
@click.option(
    "--junit",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write the outcomes to this file, as JUnit XML.",
)
@format_options
def laws(
    sampler: str | None,
    adapter: str | None,
    rules: Sequence[str],
    device: str | None,
    samples: int | None,
    seed: int,
    junit: Path | None,
    form: str,
) -> None:
    """Check the output law of an acceptance sampler, ours or yours.

    No model is needed. MODULE:FUNCTION is imported with the current directory in reach; without it
    every rule of the catalogue is checked. With --adapter uniforms the law is integrated exactly;
    otherwise the tokens are tested, and the table says which error would have been caught. Planted
    defects must be found, or the check has failed. Exit code 4 if a law is off or a defect
    escapes, 5 if the samples are too few to tell.
    """
    if sampler and rules:
        raise UsageError("both a sampler and --rule are given", "check one of them at a time")
    if not sampler and (adapter or device):
        raise UsageError(
            "--adapter and --device are for a sampler of yours", "name it: MODULE:FUNCTION"
        )
    if samples and adapter not in SAMPLED:
        raise UsageError(
            "--samples is for samplers that draw their own numbers; this check is exact",
            f"drop it, or name a sampler with --adapter {' or '.join(SAMPLED)}",
        )
    if junit and not junit.absolute().parent.is_dir():
        raise UsageError(f"--junit {junit}: there is no such folder", "name one that exists")
    if sampler:
        found = _sampler(sampler, adapter or EXACT, device or "cpu", samples, seed)
    else:
        names = rules or catalog.names("rules")
        found = [one for name in names for one in _told(name, _checks().check_rule(name, seed))]
    write([simple(outcome) for outcome in found], form, CONSOLE)
    if junit:
        junit.write_text(junit_document(found), "utf-8")
    _judge(found)


def _sampler(name: str, adapter: str, device: str, samples: int | None, seed: int) -> list[Outcome]:
    checks = _checks()
    size = {"samples": samples} if samples else {}
    return _told(
        name, checks.check_sampler(name, checks.Adapter(adapter), device=device, seed=seed, **size)
    )


def _checks() -> Any:
    """The checks' module, imported only now: it needs torch."""
    try:
        return import_module("specbench.laws.check")
    except ModuleNotFoundError as error:
        raise PrerequisiteError(
            f"checking laws needs {error.name}", "type: pip install 'specbench-llm[native]'"
        ) from error


def _told(name: str, outcomes: Iterable[Outcome]) -> list[Outcome]:
    """All outcomes; a terminal shows each as it comes, and everyone their numbers at the end."""
    found: list[Outcome] = []
    console = Console(stderr=True)
    with console.status(name) if console.is_terminal else nullcontext() as status:
        for outcome in outcomes:
            found.append(outcome)
            if status:
                status.update(f"{name}: {outcome.check}, {outcome.case}")
    counts = Counter(outcome.status.value for outcome in found)
    click.echo(f"{name}: {', '.join(f'{n} {status}' for status, n in counts.items())}", err=True)
    return found


def _judge(outcomes: Sequence[Outcome]) -> None:
    """GateFailed where a check failed, Inconclusive where the samples were too few to tell."""
    failed = [outcome for outcome in outcomes if outcome.status is Status.FAILED]
    if failed:
        first = failed[0]
        raise GateFailed(
            f"{len(failed)} of {len(outcomes)} checks failed, first {first.sampler}: "
            f"{first.check}, {first.case}",
            first.detail,
        )
    too_few = [outcome for outcome in outcomes if outcome.status is Status.TOO_FEW]
    if too_few:
        raise Inconclusive(
            f"{len(too_few)} of {len(outcomes)} checks could not have failed",
            "raise --samples",
        )
