"""EAGLE-3: a head over three layers of the target, with a vocabulary of its own, dynamic tree.

The target's features are joined and projected once per step; from then on the head takes its own
hidden states. Tokens outside its vocabulary are never drafted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from specbench.drafters.eagle.variant import EagleDrafter, eagle_info
from specbench.models.heads.layouts.taps import ENTERING, LEAVING

INFO = eagle_info(
    "eagle3",
    "EAGLE-3: a head over a low, a middle and a high layer, own vocabulary, dynamic tree",
    "Li et al. 2025, 2503.01840",
    checkpoints="EAGLE-3",
    taps="a low, a middle and a high layer",
    tree="dynamic",
    options={
        "recycle": "hidden state of the next drafted token: pre_norm or post_norm; SpecForge files "
        "do not tell theirs (the checkpoint's)",
        "layers": "side of the layer numbers in the file: entering or leaving a layer; SpecForge "
        "files do not tell theirs (by the first number)",
    },
)


class Eagle3Drafter(EagleDrafter):
    """An EAGLE-3 head on a dynamic tree."""

    info = INFO
    family = "eagle3"
    tree = "dynamic"
    switches: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "recycle": ("pre_norm", "post_norm"),
        "layers": (ENTERING, LEAVING),
    }
