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
    help="Compute every number again from the traces, and fail where one differs.",
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
    return _verified([one.run.path for one in found if isinstance(one, Entry)]) if verify else 0


def _verified(paths: list[Path]) -> int:
    from specbench.experiment.analyse import changed_files
    from specbench.results.store import RunFolder

    runs = list(dict.fromkeys(paths))
    wrong = {path: names for path in runs if (names := changed_files(RunFolder(path)))}
    for path, names in wrong.items():
        click.echo(f"{path}: its traces give another {', '.join(names)}", err=True)
    if wrong:
        raise SpecbenchError(
            f"{len(wrong)} of {len(runs)} runs are not what their traces say",
            "specbench rescore RUN makes their files again; look at what changed first",
        )
    return 0
