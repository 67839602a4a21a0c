"""`specbench leaderboard`: all runs of a folder, ranked where they measured the same."""

from __future__ import annotations

from pathlib import Path

import click

from specbench.cli.rows import write
from specbench.errors import PrerequisiteError, SpecbenchError

FORMS = ("md", "html", "latex", "csv", "json")


@click.command()
@click.argument(
    "folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path("results"),
)
@click.option("--format", "form", type=click.Choice(FORMS), default="md", show_default=True)
@click.option(
    "--verify",
    is_flag=True,
    help="Compute every number again from the traces, and fail where one differs by more than "
    "rounding.",
)
def leaderboard(folder: Path, form: str, verify: bool) -> int:
    """Rank the runs of FOLDER by measured speed-up, from their files alone.

    One table for everything that measured the same: target, suites, sampling, machine, temperature
    and load. Entries that a paired comparison does not tell apart share a rank. Lossy rules stand
    in a block of their own; incomplete and guarded entries are listed with the reason and not
    ranked. Imported figures come last, in a block without ranks; LaTeX has ranked entries alone.
    """
    from specbench.report.leaderboard.boards import boards, records
    from specbench.report.leaderboard.latex import leaderboard_latex
    from specbench.report.leaderboard.page import Page, leaderboard_html, leaderboard_markdown
    from specbench.results.foreign.imported import Imported
    from specbench.results.leaderboard.entries import Entry, Unread, entries, imports

    found = [*entries(folder), *imports(folder)]
    if not found:
        raise PrerequisiteError(f"no run in {folder}", "type: specbench run quickstart")
    made = boards([one for one in found if isinstance(one, Entry)])
    imported = [one for one in found if isinstance(one, Imported)]
    page = Page(made, imported, [one for one in found if isinstance(one, Unread)])
    if form == "md":
        click.echo(leaderboard_markdown(page), nl=False)
    elif form == "html":
        click.echo(leaderboard_html(page), nl=False)
    elif form == "latex":
        click.echo(leaderboard_latex(made), nl=False)
    else:
        write(list(records(made, imported)), form)
    return _verified(folder) if verify else 0


def _verified(out: Path) -> int:
    from specbench.experiment.analyse import differences
    from specbench.results.leaderboard.entries import run_folders

    wrong, runs = 0, 0
    for run in run_folders(out):
        if not run.summary_json.is_file():
            click.echo(f"{run.path}: not verified: it was not finished", err=True)
            continue
        runs += 1
        try:
            found = [
                f"{run.path / name} is not what its traces say: {where}"
                for name, where in differences(run).items()
            ]
        except SpecbenchError as error:
            found = [f"{run.path} cannot be verified: {error.message}"]
        wrong += bool(found)
        for line in found:
            click.echo(line, err=True)
    if wrong:
        raise SpecbenchError(
            f"{wrong} of {runs} runs are not what their traces say",
            "specbench rescore RUN makes their files again; look at what changed first",
        )
    return 0
