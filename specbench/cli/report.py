"""`specbench report`: one page of HTML about a run, or its charts as files."""

from __future__ import annotations

from pathlib import Path

import click

from specbench.cli.out import out_option
from specbench.errors import UsageError


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option(
    "--html",
    "html_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write one self-contained page to this file.",
)
@click.option(
    "--plots",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write every chart into this folder, as PNG, SVG and CSV.",
)
@out_option
def report(runs: tuple[str, ...], html_file: Path | None, plots: Path | None, out: Path) -> None:
    """Draw RUN: speed-up, acceptance, latencies, phases, where speculation pays, fidelity.

    The page needs no network and no server. Every chart has its table and a download.
    """
    if html_file is None and plots is None:
        raise UsageError(
            "where to?", "type: specbench report RUN --html report.html, or --plots FOLDER"
        )
    if html_file is not None and not html_file.absolute().parent.is_dir():
        raise UsageError(f"{html_file}: there is no such folder", "name one that exists")
    from specbench.report.page.html import charts, page
    from specbench.report.page.measured import Measured
    from specbench.results.read import find_run

    measured = [Measured(find_run(run, out)) for run in runs]
    if html_file is not None:
        html_file.write_text(page(measured), "utf-8")
        click.echo(f"{html_file}", err=True)
    if plots is not None:
        from specbench.report.page.files import write_charts

        for run in measured:
            folder = plots if len(measured) == 1 else plots / run.manifest.run
            for path in write_charts(charts(run), folder):
                click.echo(f"{path}", err=True)
