"""Drafting heads as lines for `specbench models inspect`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specbench.models.heads.describe import BIGRAM_TABLE, HeadDescription, Heads
from specbench.models.heads.table import BIGRAM

Line = tuple[str, str]

_ALL_AGREE = "hidden size, vocabulary and layers agree"

_SWITCHES = (
    *("fc_bias", "attention_bias", "input_norm", "norm_before_residual", "norm_before_fc"),
    *("fc_norm", "final_norm"),
)


def head_lines(heads: Heads, path: str, target: str | None) -> list[Line]:
    """(label, value) pairs; none for a plain model.

    Args:
        path: what an arm's ``model`` is set to.
        target: what the heads were checked against, if anything.
    """
    lines = [line for head in heads.native for line in _native(head, path, heads.contents)]
    if target is not None and heads.native and not any(head.problem for head in heads.native):
        what = "vocabulary agrees" if heads.contents == BIGRAM_TABLE else _ALL_AGREE
        lines.append(("fits", f"{target}: {what}"))
    if heads.foreign is not None:
        lines += [
            ("head", f"{heads.foreign.what} ({heads.foreign.kind}), not run natively"),
            ("runs on", heads.foreign.runs_on),
        ]
    return lines + [line for head in heads.elsewhere for line in _read(head)]


def _native(head: HeadDescription, path: str, contents: str) -> list[Line]:
    if contents == BIGRAM_TABLE:
        lines = [("bigram table", "what most often followed each token of a target")]
    else:
        lines = [("head", f"family {head.family}, layout {head.layout}")]
    if head.problem:
        return [*lines, ("problem", head.problem)]
    inside = contents != "head" and head.family == "mtp"
    model = "" if inside else f', options = {{ model = "{path}" }}'
    loads = [("load as", f'drafter = "{name}"{model}') for name in head.drafters]
    return [*lines, *_inside(head), *loads, *_odd(head)]


def _read(head: HeadDescription) -> list[Line]:
    """A head that is read and not run: nothing to load it as."""
    lines = [("read as", f"family {head.family}, layout {head.layout}")]
    if head.problem:
        return [*lines, ("problem", head.problem)]
    return [*lines, *_inside(head), *_odd(head)]


def _inside(head: HeadDescription) -> list[Line]:
    taps = f"the target's hidden states: {', '.join(head.taps)}"
    lent = "; projects by the target's rows of these tokens" if head.projection == "rows" else ""
    return [
        ("holds", _sizes(head.family, head.fields) + lent),
        (
            "stored",
            f"{_many(head.tensors, 'tensor')}, {head.parameters:,} parameters, "
            f"{head.size_bytes / 1e6:,.1f} MB",
        ),
        ("reads", taps if head.taps else "the last token alone"),
    ]


def _odd(head: HeadDescription) -> list[Line]:
    return [("odd", oddity) for oddity in head.oddities]


def _sizes(family: str, f: Mapping[str, Any]) -> str:
    if family == "medusa":
        whose = {"own": "a projection each", "one": "one projection", "target": "no projection"}
        grid = f"{_many(f['heads'], 'head')} of {_many(f['blocks'], 'block')}"
        return f"{grid}, {whose[f['projection']]}; hidden size {f['hidden']}; {_vocabulary(f)}"
    if family == BIGRAM:
        counted = "" if f["tokens"] is None else f", counted over {f['tokens']} tokens"
        return f"vocabulary {f['vocabulary']}{counted}"
    if family == "mtp":
        order, recycled = f["order"].replace("_", " "), f["recycle"].replace("_", "-")
        modules = _many(f["layers"], "module")
        if f["layers"] > 1:
            modules += " (only the first is used)"
        fewer = "" if f["draft_vocabulary"] == f["vocabulary"] else f"; {_vocabulary(f)}"
        return f"{modules} with {f['family']}'s switches: {order}, recycled {recycled}{fewer}"
    on = [name for name in _SWITCHES if f.get(name)]
    parts = [
        f"{_many(f['layers'], 'layer')}, hidden size {f['hidden']}, {f['heads']} heads of "
        f"{f['head_size']} ({f['kv_heads']} for keys and values)",
        _vocabulary(f),
        f"rope_theta {f['rope_theta']:.0f}, {f['max_positions']} positions",
    ]
    return "; ".join([*parts, *([", ".join(on)] if on else [])])


def _vocabulary(f: Mapping[str, Any]) -> str:
    whole, drafted = f["vocabulary"], f["draft_vocabulary"]
    if whole is None:
        return "vocabulary not stated"
    return f"vocabulary {whole}" if drafted == whole else f"drafts {drafted} of {whole} tokens"


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
