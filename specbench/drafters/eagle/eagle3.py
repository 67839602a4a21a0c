"""EAGLE-3: a head over three layers of the target, with a vocabulary of its own, dynamic tree.

The target's features are joined and projected once per step; from then on the head takes its own
hidden states. Tokens outside its vocabulary are never drafted.
"""

from __future__ import annotations

from specbench.drafters.eagle.variant import EagleDrafter, eagle_info

INFO = eagle_info(
    "eagle3",
    "EAGLE-3: a head over a low, a middle and a high layer, own vocabulary, dynamic tree",
    "Li et al. 2025, 2503.01840",
    checkpoints="EAGLE-3",
    taps="a low, a middle and a high layer",
    tree="dynamic",
)


class Eagle3Drafter(EagleDrafter):
    """An EAGLE-3 head on a dynamic tree."""

    info = INFO
    family = "eagle3"
    tree = "dynamic"
