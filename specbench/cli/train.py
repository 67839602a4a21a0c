"""`specbench train`: a recipe in, a drafting head in a published layout out."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from specbench.train.job.folder import JobFolder
    from specbench.train.job.listeners import Outcome


@click.command()
@click.argument("recipe", metavar="RECIPE", type=click.Path(path_type=Path))
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the training; a second call goes on there.  [default: train/NAME]",
)
@click.option(
    "--data",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of prompts, answers and captured states; recipes may share it.  "
    "[default: data in the folder of the training]",
)
@click.option(
    "--max-minutes",
    type=click.FloatRange(min=0, min_open=True),
    default=90.0,
    show_default=True,
    help="Stop behind the first step, answer or shard that ends later than this; the same command "
    "goes on, and asks up to data.batch unfinished answers again.",
)
def train(recipe: Path, out: Path | None, data: Path | None, max_minutes: float) -> None:
    """Train a drafting head or a draft model as RECIPE (a TOML file) says.

    The target writes and answers prompts, its hidden states along the answers are stored, and the
    network learns from them; every few steps the drafter of inference is run on answers that were
    kept back. All of it can be stopped at any time: the same command goes on.

    Prints the folder of the exported head on stdout, or nothing while it is not finished.
    """
    began = time.monotonic()
    from specbench.cli.training_progress import TrainingProgress
    from specbench.models.checkpoint import require_torch
    from specbench.train.recipe.read import read_recipe

    # A wrong recipe is found in a moment and without torch.
    found = read_recipe(recipe)
    require_torch()
    from specbench.train.job.folder import JobFolder
    from specbench.train.job.listeners import Listeners
    from specbench.train.job.run import train

    folder = out or Path("train") / found.name
    job = JobFolder(folder, data or folder / "data")
    reached = "before the first step"
    with TrainingProgress() as progress:

        def stage(name: str, done: int, total: int) -> None:
            nonlocal reached
            reached = f"at {name}, {done} of {total}"
            progress.stage(name, done, total)

        outcome = train(
            found,
            recipe.read_text(encoding="utf-8"),
            job,
            Listeners(
                progress.note,
                stage,
                progress.moved,
                progress.validated,
                lambda: time.monotonic() - began > 60 * max_minutes,
            ),
        )
    # Of several processes the first one speaks.
    if outcome is not None:
        _tell(outcome, job, reached)


def _tell(outcome: Outcome, job: JobFolder, reached: str) -> None:
    """The last lines; ``reached`` says how far the stages before the first step are."""
    from specbench.train.loop.curves import to_look_at

    standing = outcome.standing
    best = "" if standing.best is None else f", best accept length {standing.best:.2f}"
    if not outcome.finished:
        where = f"at step {standing.step} of {standing.total}" if standing.step else reached
        click.echo(f"stopped {where}{best}; the same command goes on ({job.path})", err=True)
        return
    curves = f" at step {standing.best_step}; curves: {to_look_at(job.picture, job.curves)}"
    click.echo(f"{standing.stopped}{best}{curves if standing.step else ''}", err=True)
    click.echo(job.head)
