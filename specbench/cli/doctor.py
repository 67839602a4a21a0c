"""`specbench doctor`: what can run here, and the command that mends what cannot."""

from __future__ import annotations

import click

from specbench.cli.checks import CHECKS
from specbench.cli.finding import Status
from specbench.cli.rows import simple, write
from specbench.errors import PrerequisiteError


@click.command()
@click.option("--json", "form", flag_value="json", default="console", help="JSON on stdout.")
def doctor(form: str) -> int:
    """Show what can run here and what is missing.

    States: ok; missing = the native engine cannot run without it (exit code 3); optional =
    one ability less.
    """
    checks = [check for group in CHECKS for check in group()]
    write([simple(check) for check in checks], form)
    native = all(check.status is not Status.MISSING for check in checks)
    click.echo(f"the native engine {'can' if native else 'cannot'} run here", err=True)
    return 0 if native else PrerequisiteError.exit_code
