"""Faults that a gate has to find: a slow drafter, a shuffled head, a lossy rule posing as lossless.

``planted`` puts them into the catalogue of this process; ``shuffled`` writes a head.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from specbench import catalog
from specbench.decoding.protocols import Draft, Lossless
from specbench.decoding.sequence import Sequence as DecodedSequence
from specbench.drafters.mtp import INFO as MTP
from specbench.drafters.mtp import MtpDrafter
from specbench.models.heads.configs import TargetShape
from specbench.models.heads.read import read_head
from specbench.models.heads.write import write_head
from specbench.models.load import load_model
from specbench.models.locate import locate
from specbench.verify.listed import ListedRule
from specbench.verify.typical import INFO as TYPICAL
from specbench.verify.typical import typical

SLOWED, POSING = "slowed_mtp", "posing"
PAUSE_S = 0.010
"""What ``SLOWED`` waits before every draft: about a fifth of a step of the demo model."""


class SlowedMtp(MtpDrafter):
    """The MTP drafter with a pause before every draft, as a synchronisation too many makes one."""

    info = replace(MTP, name=SLOWED)

    def propose(self, rows: Sequence[DecodedSequence], budget: Sequence[int]) -> Draft:
        """The same draft, later."""
        time.sleep(PAUSE_S)
        return super().propose(rows, budget)


POSING_RULE = ListedRule(replace(TYPICAL, name=POSING, lossless=Lossless.PROVEN), typical)
"""Typical acceptance that is declared lossless and states no other law."""


def planted() -> None:
    """Both names can be used in experiments that this process runs."""
    catalog.DRAFTERS[SLOWED] = f"{__name__}:SlowedMtp"
    catalog.RULES[POSING] = f"{__name__}:POSING_RULE"


def shuffled(target: str, head: str, folder: Path, seed: int) -> Path:
    """A head whose matrices are shuffled, each in itself: right shapes, right norms, no sense.

    Args:
        target: model that it drafts for.
        head: name or folder of an MTP head.
        folder: where it is written.

    Returns:
        The folder.
    """
    shape = TargetShape.of(load_model(locate(target)).config)
    place = locate(head, needs_tokenizer=False)
    found = read_head(place, families=("mtp",), target=shape, dtype="auto")
    chance = torch.Generator().manual_seed(seed)
    tensors = dict(found.tensors)
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and tensor.dim() > 1:
            order = torch.randperm(tensor.numel(), generator=chance)
            tensors[name] = tensor.flatten()[order].view_as(tensor)
    return write_head(replace(found, tensors=tensors), folder, found.layout)
