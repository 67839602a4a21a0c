"""EAGLE-1: one layer continues the target's final hidden states, on the static tree of its code."""

from __future__ import annotations

from specbench.drafters.eagle.variant import EagleDrafter, eagle_info

INFO = eagle_info(
    "eagle1",
    "EAGLE-1: one layer continues the target's final hidden states, static tree",
    "Li et al. 2024, 2401.15077",
    checkpoints="EAGLE-1 or EAGLE-2",
    taps="final",
    tree="eagle_25",
)


class Eagle1Drafter(EagleDrafter):
    """An EAGLE-1 head; its tree is static, siblings are drawn without replacement."""

    info = INFO
    family = "eagle1"
    tree = "eagle_25"
