"""How weights of linear layers are stored: plain data, so that files are checked without torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from specbench.errors import UsageError

DEFAULT_GROUP = 32
GROUPS = (16, 32, 64, 128)
SCHEMES: Mapping[str, tuple[str, int]] = {
    "none": ("none", DEFAULT_GROUP),
    "int8": ("int8", DEFAULT_GROUP),
    "int4": ("int4", DEFAULT_GROUP),
    **{f"int4-g{group}": ("int4", group) for group in GROUPS},
}
"""What can be asked for -> scheme and columns per group."""
BACKENDS = ("torch", "torchao", "bitsandbytes")

QUANT_OPTIONS: Mapping[str, str] = {
    "quant": "how the draft's linear weights are stored, whatever the target's are: none, int8, "
    "int4 or int4-gN, with groups of N = 16, 32, 64 or 128 columns, 32 in int4 (none)",
    "quant_backend": "torch, torchao or bitsandbytes: what quantises and computes (torch)",
    "quant_head": "whether the output projection is quantised too (false)",
}
"""Options of drafters that load weights, for ``DrafterInfo.options``."""


@dataclass(frozen=True, slots=True)
class Quant:
    """Weight-only quantisation: linear layers are stored in few bits, activations stay as they are.

    Attributes:
        scheme: ``none``, ``int8`` or ``int4``.
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

    Without ``quant`` the other keys say nothing: a study may vary it beside them.

    Raises:
        UsageError: names ``where``, the key, its value and what to write.
    """
    asked = _one_of(options, "quant", tuple(SCHEMES), where)
    backend = _one_of(options, "quant_backend", BACKENDS, where)
    head = options.get("quant_head") or False
    if not isinstance(head, bool):
        raise UsageError(f"{where}: quant_head={head!r}", "write true or false")
    scheme, group = SCHEMES[asked]
    if scheme == "none":
        return NOT_QUANTISED
    if backend == "bitsandbytes" and asked != scheme:
        raise UsageError(
            f"{where}: quant={asked!r} of bitsandbytes, which has blocks of its own",
            f"write quant = {scheme!r}, or quant_backend = 'torch'",
        )
    return Quant(scheme, backend, group, head)


def _one_of(options: Mapping[str, object], name: str, known: tuple[str, ...], where: str) -> str:
    value = options.get(name)
    if value is None:
        return known[0]
    if value not in known:
        raise UsageError(f"{where}: {name}={value!r}", f"use one of {_listed(known)}")
    return str(value)


def _listed(values: tuple[object, ...]) -> str:
    return ", ".join(map(str, values))
