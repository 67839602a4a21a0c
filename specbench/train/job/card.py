"""The card beside a trained head: README.md for people, training.json for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from specbench.results.store import write_atomic
from specbench.train.recipe.methods import COUNTED, DRAFTERS
from specbench.train.recipe.schema import Recipe

RECORD, CARD = "training.json", "README.md"


def write_card(folder: Path, recipe: Recipe, record: Mapping[str, Any]) -> None:
    """Write both files into the folder of a head."""
    write_atomic(folder / RECORD, json.dumps(record, indent=2, ensure_ascii=False) + "\n")
    write_atomic(folder / CARD, card(recipe, record))


def card(recipe: Recipe, record: Mapping[str, Any]) -> str:
    """The text of README.md, from the record of the training alone."""
    return "\n".join([*_facts(recipe, record), *_lengths(record)])


def _facts(recipe: Recipe, record: Mapping[str, Any]) -> Iterator[str]:
    loop, data = record["loop"], record["data"]
    what = {"model": "draft model", "table": "table"}.get(recipe.family, "head")
    yield from (f"# {recipe.name}", "", recipe.title or f"A {what} of method `{recipe.method}`.")
    yield from ("", *_target_lines(recipe, record))
    if recipe.method in COUNTED:
        yield f"- counted by: `specbench train`, method `{recipe.method}`"
    else:
        yield (
            f"- trained by: `specbench train`, method `{recipe.method}`, {loop['steps']} steps, "
            f"{loop['tokens']:,} tokens, {loop['hours']:.2f} hours; best step {loop['best_step']}"
        )
    for change in record.get("changes", []):
        yield (
            f"- changed behind step {change['behind']['step']}, whose loss was no number: "
            f"{change['key']} from {change['from']} to {change['to']}"
        )
    yield _data_line(data)
    if data["draft_vocabulary"] is not None:
        yield _vocabulary_line(data)


def _target_lines(recipe: Recipe, record: Mapping[str, Any]) -> Iterator[str]:
    drafter = DRAFTERS[recipe.method]
    tuned = record.get("tuned_from")
    if tuned is None:
        yield f"- drafts for: {_named(record['target'])}"
        yield f"- runs with: drafter `{drafter}`, `model` = this folder"
        return
    yield f"- is a target of its own, with heads: tuned from {_named(tuned)}"
    yield f"- runs with: this folder as the target, and as `model` of drafter `{drafter}`"


def _named(target: Mapping[str, Any]) -> str:
    revision = f" (revision {target['revision']})" if target["revision"] else ""
    return f"{target['name']}{revision}, weights `{target['weight_hash']}`"


def _data_line(data: Mapping[str, Any]) -> str:
    side = data["train"]
    temperatures = ", ".join(f"{one:g}" for one in side["temperatures"])
    return (
        f"- trained on: {side['answers']:,} answers of the target itself "
        f"({side['answer_tokens']:,} tokens, temperatures {temperatures}) to prompts from "
        f"{', '.join(side['sources'])}; prompts of the measured suites and what is near to them "
        "were left out"
    )


def _vocabulary_line(data: Mapping[str, Any]) -> str:
    outside = ", ".join(f"{name} {share:.2%}" for name, share in data["outside_vocabulary"].items())
    return (
        f"- draft vocabulary: {data['draft_vocabulary']:,} tokens; share of held-out tokens "
        f"outside it: {outside}"
    )


def _lengths(record: Mapping[str, Any]) -> Iterator[str]:
    length = record["loop"]["held_out_accept_length"]
    yield from ("", "## Accept length", "")
    yield f"Held-out answers, mean over temperatures: {length:.2f} tokens per step."
    suites = record.get("suites", {})
    if suites:
        yield from ("", "Greedy answers to dev prompts of the suites, cut where they loop:", "")
        yield "| suite | accept length | K | acceptance by depth | prompts | tokens |"
        yield "| --- | --- | --- | --- | --- | --- |"
    for name, found in suites.items():
        alphas = ", ".join(f"{alpha:.2f}" for alpha in found["alphas"])
        yield (
            f"| {name} | {found['accept_length']:.2f} | {found['k']} | {alphas} | "
            f"{found['prompts']} | {found['tokens']} |"
        )
    yield from ("", "Speed is for `specbench run` to measure.", "")
