"""`specbench import`: figures of other tools, with stated meanings, never ranked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from specbench.cli.rows import format_options, write
from specbench.errors import UsageError

if TYPE_CHECKING:
    from specbench.results.foreign.imported import Imported


@click.command("import")
@click.argument(
    "files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path)
)
@click.option(
    "--from",
    "source",
    default="auto",
    show_default=True,
    metavar="FORMAT",
    help="spec-bench, vllm-bench, specforge, specforge-eagle3 or aiperf; auto looks inside.",
)
@click.option("--name", help="Name of its folder.  [default: the file's]")
@click.option("--arm", help="What its figures are called.  [default: the name]")
@click.option("--suite", default="", help="Prompts behind it, where the file does not say.")
@click.option("-k", "--k", "k", type=click.IntRange(min=1), help="Longest draft in tokens.")
@click.option(
    "--method",
    help="Loop that wrote a Spec-Bench file: vanilla, sps, pld, lookahead, space, eagle, eagle2, "
    "eagle3, medusa, hydra or rest. It decides which entries are decode steps.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("results"),
    show_default=True,
    help="Folder of runs; imports lie in OUT/imported.",
)
@format_options
def import_(
    files: tuple[Path, ...],
    source: str,
    name: str | None,
    arm: str | None,
    suite: str,
    k: int | None,
    method: str | None,
    out: Path,
    form: str,
) -> None:
    """Import results of other tools from FILE: Spec-Bench, vLLM, SpecForge, aiperf.

    Every figure is converted to a definition of specbench, or refused with the reason. What is
    imported is marked, shown by `show` and listed by `leaderboard` in a block of its own; it is
    never ranked, and `compare` and `gate` refuse it (exit code 6).
    """
    from specbench.results.foreign.format import Asked
    from specbench.results.foreign.imported import write_imported
    from specbench.results.foreign.importing import import_file

    if len(files) > 1 and name is not None:
        raise UsageError("--name is for one file", "leave it out: files keep their names")
    found = [
        import_file(file, name, Asked(arm or name or file.stem, suite, k, method), source)
        for file in files
    ]
    names = [one.name for one in found]
    twice = next((one for one in names if names.count(one) > 1), None)
    if twice is not None:
        raise UsageError(
            f"two files would be called {twice}", "import them one by one, with --name"
        )
    folders = [write_imported(one, out) for one in found]
    write_imports(found, form)
    for folder in folders:
        click.echo(f"{folder}", err=True)


def write_imports(found: list[Imported], form: str) -> None:
    """Imports on stdout; as JSON the documents themselves."""
    from specbench.cli.pairs import write_pairs
    from specbench.report.imported import (
        imported_grid,
        imported_heading,
        imported_markdown,
        imported_records,
    )
    from specbench.results.foreign.imported import imported_text

    if form == "json":
        documents = [json.loads(imported_text(one)) for one in found]
        shown = documents if len(documents) > 1 else documents[0]
        click.echo(json.dumps(shown, ensure_ascii=False, indent=2))
    elif form == "csv":
        write([record for one in found for record in imported_records(one)], form)
    elif form == "md":
        click.echo("\n".join(map(imported_markdown, found)), nl=False)
    else:
        write_pairs((imported_heading(one), imported_grid(one)) for one in found)
