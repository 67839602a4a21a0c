"""Generated sections of docs/drafters.md: what every drafter of the catalogue declares."""

from __future__ import annotations

from typing import cast

from specbench import catalog
from specbench.decoding.protocols import Drafter, DrafterInfo, DraftFacts

KINDS = {
    "": "nothing is drafted",
    "one_hot": "a chain chosen without chance",
    "iid": "a chain of draws",
    "independent": "draws of several drafts side by side",
    "without_replacement": "a tree of draws without replacement",
    "deterministic_set": "a tree chosen without chance",
}


def infos() -> list[DrafterInfo]:
    """Declared facts of all drafters, in the catalogue's order."""
    return [cast(Drafter, catalog.resolve("drafters", name)).info for name in catalog.DRAFTERS]


def drafter_table() -> str:
    """One row per drafter."""
    lines = [
        "| drafter | what drafts | source | drafts, by default | reads of the target | KV |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| `{info.name}` | {info.summary} | {info.source} | {_kind(info.default)} | "
        f"{info.taps or '-'} | {info.kv} |"
        for info in infos()
    ]
    return "\n".join(lines)


def drafter_options() -> str:
    """One row per option, and what drafts are like under options."""
    lines = ["| drafter | option | meaning (default) |", "| --- | --- | --- |"]
    lines += [
        f"| `{info.name}` | `{name}` | {meaning} |"
        for info in infos()
        for name, meaning in info.options.items()
    ]
    lines += ["", "| drafter | with | drafts |", "| --- | --- | --- |"]
    lines += [
        f"| `{info.name}` | {_given(options)} | {_kind(facts)} |"
        for info in infos()
        for options, facts in info.variants
    ]
    return "\n".join(lines)


def _given(options: object) -> str:
    pairs = cast("dict[str, object]", options).items()
    return ", ".join(f"`{name} = {value}`" for name, value in pairs)


def _kind(facts: DraftFacts) -> str:
    kind = KINDS[facts.trials]
    return f"{kind}; stateful" if facts.stateful else kind
