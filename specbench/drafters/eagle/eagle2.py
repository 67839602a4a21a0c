"""EAGLE-2: the head of EAGLE-1 on a tree that follows the head's own confidence.

Checkpoints of the two are of one format and of one network; which tree they are drafted on is all
that differs.
"""

from __future__ import annotations

from specbench.drafters.eagle.variant import EagleDrafter, eagle_info

INFO = eagle_info(
    "eagle2",
    "EAGLE-2: the head of EAGLE-1, dynamic tree",
    "Li et al. 2024, 2406.16858",
    checkpoints="EAGLE-1 or EAGLE-2",
    taps="final",
    tree="dynamic",
)


class Eagle2Drafter(EagleDrafter):
    """An EAGLE-1 head on a dynamic tree."""

    info = INFO
    family = "eagle1"
    tree = "dynamic"
