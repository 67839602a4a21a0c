"""What a multi-token prediction checkpoint does not say about itself, by family.

Sources: ALGORITHMS 3.5 and the serving engines' code that it names.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Switches:
    """How a module is run; fields as in ``MtpConfig``, and whether norms multiply by 1 + weight."""

    family: str
    order: str
    recycle: str
    zero_first: bool
    centred_norms: bool = False

    def __str__(self) -> str:
        zero = "zeroed" if self.zero_first else "kept"
        return (
            f"{self.order.replace('_', ' ')}, recycled {self.recycle.replace('_', '-')}, "
            f"embedding at position 0 {zero}"
        )


_DEEPSEEK = Switches("deepseek", "embedding_first", "pre_norm", True)
_GLM = Switches("glm4_moe", "embedding_first", "post_norm", True)
_MIMO = Switches("mimo", "hidden_first", "post_norm", True)
_QWEN = Switches("qwen3_next", "embedding_first", "post_norm", False, True)
_SPECULATORS = Switches("deepseek", "embedding_first", "post_norm", False)

WHY = {
    "deepseek": "recycle pre_norm: vLLM feeds the block's output before the shared head's norm, "
    "SGLang the normed one",
    "glm4_moe": "recycle post_norm: engines that fed the state before the norm accepted less",
    "mimo": "recycle post_norm: the module returns its normed state and nothing else",
    "qwen3_next": "norms before fc on both inputs; all norms are zero-centred and multiply by "
    "1 + their weight; recycle post_norm: engines feed the state behind the last norm "
    "back",
    "speculators": "recycle post_norm: speculators trains every step on the normed output of the "
    "one before",
}
"""Reasons for the recycled state, for the record."""


def switches_of(layout: str, model_type: str) -> Switches:
    """The switches of a layout whose configuration names this model type."""
    if layout == "speculators":
        return _SPECULATORS
    if layout == "mimo":
        return _MIMO
    if layout == "qwen":
        return _QWEN
    return _GLM if model_type.startswith("glm") else _DEEPSEEK


def reason(layout: str, switches: Switches) -> str:
    """Why the recycled state is what it is."""
    return WHY["speculators" if layout == "speculators" else switches.family]
