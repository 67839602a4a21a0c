"""`specbench models new`: a model of a published shape with random weights."""

from __future__ import annotations

from pathlib import Path

import click

DTYPES = ("bfloat16", "float16", "float32")


@click.command("new")
@click.argument("shape", metavar="SHAPE")
@click.option(
    "--out",
    required=True,
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder to make; refused where it holds a model.",
)
@click.option("--layers", type=click.IntRange(min=1), metavar="N", help="The first N layers alone.")
@click.option("--dtype", type=click.Choice(DTYPES), default=DTYPES[0], show_default=True)
@click.option("--seed", default=0, show_default=True, help="Of the random weights.")
def new_model(shape: str, out: Path, layers: int | None, dtype: str, seed: int) -> None:
    """Write a model with random weights in the shape of SHAPE, to measure how fast it would be.

    SHAPE is a name that `specbench roofline` knows (llama-3.1-8b), a model's folder or its
    config.json. Tokens are the demo model's. Prints the folder on stdout.
    """
    from specbench.models import new_model as making
    from specbench.models.shapes.find import configuration

    folder = making.new_model(configuration(shape), out, layers=layers, dtype=dtype, seed=seed)
    click.echo(
        "random weights: times mean something, text and acceptance do not; "
        "see the rule synthetic in docs/rules.md",
        err=True,
    )
    click.echo(folder)
