"""`specbench models new-head`: an untrained head that fits a target, in a published layout."""

from __future__ import annotations

from pathlib import Path

import click

from specbench.models.locate import locate

LAYOUTS = (
    "eagle1: official, speculators; eagle3: official, specforge, speculators; "
    "medusa: v2, v1, vllm; mtp: nextn, mimo, speculators. The first is the default."
)


@click.command("new-head")
@click.argument("target", metavar="TARGET")
@click.option(
    "--family",
    required=True,
    type=click.Choice(["eagle1", "eagle3", "medusa", "mtp"]),
    help="Kind of head; eagle1 heads also run as eagle2.",
)
@click.option(
    "--out",
    required=True,
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder to make; refused where it holds a checkpoint.",
)
@click.option("--layout", metavar="NAME", help=f"Whose names and files. {LAYOUTS}")
@click.option("--seed", default=0, show_default=True, help="Of the random weights.")
@click.option("--draft-vocab", type=int, metavar="N", help="Tokens that the head can draft (all).")
@click.option("--heads", type=int, metavar="N", help="Heads of a Medusa checkpoint (5).")
@click.option("--revision", metavar="REV", help="Branch, tag or commit of a hub model.")
def new_head(
    target: str,
    family: str,
    out: Path,
    layout: str | None,
    seed: int,
    draft_vocab: int | None,
    heads: int | None,
    revision: str | None,
) -> None:
    """Write an untrained drafting head that fits TARGET.

    It accepts little: it is what training starts from, and lets everything around it be tried.
    Prints the folder on stdout.
    """
    from specbench.models.heads import new
    from specbench.models.heads.write import write_head

    head, layout = new.new_head(
        locate(target, revision=revision, needs_tokenizer=False),
        family,
        layout=layout,
        seed=seed,
        draft_vocabulary=draft_vocab,
        heads=heads,
    )
    folder = write_head(head, out, layout)
    click.echo(f"{family} head in {layout} layout; untrained: accepts little; train it", err=True)
    click.echo(folder)
