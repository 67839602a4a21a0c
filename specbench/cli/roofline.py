"""`specbench roofline`: what hardware allows, from a model's configuration and a data sheet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from specbench.cli.rows import format_options
from specbench.roofline.devices import BITS, DEVICES
from specbench.roofline.memory import USABLE

MEASURED = "measured"


@click.command()
@click.argument("target", metavar="TARGET")
@click.option(
    "--device",
    default="h200",
    show_default=True,
    metavar="NAME",
    help=f"{', '.join(DEVICES)}; or {MEASURED}: this machine, in some 10 s.",
)
@click.option(
    "--devices",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="As one, even split.",
)
@click.option(
    "--draft", metavar="D", help="A draft model, a head, or eagle3, mtp, medusa: made up."
)
@click.option(
    "--draft-vocab", type=click.IntRange(min=1), help="Tokens that a made-up head drafts."
)
@click.option(
    "--draft-cost",
    type=click.FloatRange(min=0),
    help="Instead of --draft: a drafted token in forwards of the target.  [default: 0]",
)
@click.option("--dtype", type=click.Choice(list(BITS)), help="Of products.  [default: the file's]")
@click.option(
    "--kv-dtype", type=click.Choice(list(BITS)), help="Of the KV cache.  [default: 16 bits]"
)
@click.option(
    "--quant",
    "bits",
    type=click.FloatRange(min=1, max=32),
    help="Stored bits of the target's layers.  [default: the file's]",
)
@click.option("--batch", default="1,8,32,128", show_default=True, help="Requests at a time.")
@click.option("--context", default="1024,8192,32768", show_default=True, help="Tokens before.")
@click.option("--acceptance", default="0.6,0.7,0.8,0.9", show_default=True, help="Per token.")
@click.option(
    "-k", "--k", type=click.IntRange(min=1), default=16, show_default=True, help="Longest draft."
)
@click.option(
    "--slack",
    type=click.FloatRange(min=0),
    default=0.1,
    show_default=True,
    help="How much slower a forward may be within the budget of rows.",
)
@click.option(
    "--usable",
    type=click.FloatRange(min=0, max=1, min_open=True),
    default=USABLE,
    show_default=True,
    help="Share of memory for weights and KV.",
)
@click.option(
    "--plots",
    type=click.Path(file_okay=False, path_type=Path),
    help="Also draw, into this folder, as PNG, SVG and CSV.",
)
@format_options
def roofline(target: str, form: str, plots: Path | None, **options: Any) -> None:
    """Say what speculation can bring for TARGET on a device, before anything is run.

    TARGET is the demo model, a folder, a config.json, a cached hub id, or a published shape
    (llama-3.1-8b, deepseek-v3, ...); no weights are needed. Bytes and FLOPs of a forward, lower
    bounds of the ITL, rows that a verification may have, best K and speed-up by acceptance and
    load, and what the draft takes of the memory. Bounds leave out activations, launches and the
    host; devices together are taken to talk for nothing.
    """
    from specbench.cli.roofline_call import Call

    call = Call.of(target, options)
    call.write(form)
    if plots is not None:
        call.draw(plots)
