"""How weights of linear layers are stored: plain data, so that files are checked without torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from specbench.errors import UsageError

SCHEMES = ("none", "int8", "int4")
BACKENDS = ("torch", "torchao", "bitsandbytes")
GROUPS = (16, 32, 64, 128)
DEFAULT_GROUP = 32

QUANT_OPTIONS: Mapping[str, str] = {
    "quant": "none, int8 or int4: how the draft's linear weights are stored, whatever the target's "
    "are (none)",
    "quant_backend": "torch, torchao or bitsandbytes: what quantises and computes (torch)",
    "quant_group": "columns that share a scale in int4: 16, 32, 64 or 128 (32)",
    "quant_head": "whether the output projection is quantised too (false)",
}
"""Options of drafters that load weights, for ``DrafterInfo.options``."""


@dataclass(frozen=True, slots=True)
class Quant:
    """Weight-only quantisation: linear layers are stored in few bits, activations stay as they are.

    Attributes:
        scheme: of ``SCHEMES``.
        backend: of ``BACKENDS``; ``torch`` needs no further package.
        group: input columns that share a scale and an offset in int4.
        head: whether the output projection is quantised too. Embeddings and norms never are.
    """

    scheme: str = "none"
    backend: str = "torch"
    group: int = DEFAULT_GROUP
    head: bool = False

    @property
    def on(self) -> bool:
        """Whether anything is quantised."""
        return self.scheme != "none"

    @property
    def label(self) -> str:
        """One word for records, such as ``int8`` or ``int4-g32-head-torchao``."""
        if not self.on:
            return "none"
        words = [self.scheme]
        if self.scheme == "int4" and self.backend != "bitsandbytes":
            words.append(f"g{self.group}")
        words += ["head"] if self.head else []
        words += [self.backend] if self.backend != "torch" else []
        return "-".join(words)


NOT_QUANTISED = Quant()


def quant_of(options: Mapping[str, object], where: str) -> Quant:
    """The quantisation that a ``[target]`` table or an arm's options ask for; None = not given.

    Raises:
        UsageError: names ``where``, the key, its value and what to write.
    """
    scheme = _one_of(options, "quant", SCHEMES, where)
    backend = _one_of(options, "quant_backend", BACKENDS, where)
    group, head = options.get("quant_group"), options.get("quant_head")
    if group is not None and (isinstance(group, bool) or group not in GROUPS):
        raise UsageError(f"{where}: quant_group={group!r}", f"use one of {_listed(GROUPS)}")
    if head is not None and not isinstance(head, bool):
        raise UsageError(f"{where}: quant_head={head!r}", "write true or false")
    if group is not None and (scheme != "int4" or backend == "bitsandbytes"):
        raise UsageError(
            f"{where}: quant_group={group} with quant={scheme!r} of {backend}, which has no groups "
            "to choose",
            "leave quant_group out, or write quant = 'int4' with torch or torchao",
        )
    if scheme == "none" and (backend != "torch" or head):
        given = f"quant_head={head}" if head else f"quant_backend={backend!r}"
        raise UsageError(
            f"{where}: {given} without quant", "add quant = 'int8' or 'int4', or leave it out"
        )
    assert group is None or isinstance(group, int)
    return Quant(scheme, backend, DEFAULT_GROUP if group is None else group, bool(head))


def _one_of(options: Mapping[str, object], name: str, known: tuple[str, ...], where: str) -> str:
    value = options.get(name)
    if value is None:
        return known[0]
    if value not in known:
        raise UsageError(f"{where}: {name}={value!r}", f"use one of {_listed(known)}")
    return str(value)


def _listed(values: tuple[object, ...]) -> str:
    return ", ".join(map(str, values))
