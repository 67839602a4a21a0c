"""A batch of nothing, as long as the longest conversation that a recipe's data can hold."""

from __future__ import annotations

import torch

from specbench.models.heads.configs import FINAL
from specbench.train.capture.corpus import Batch
from specbench.train.job.methods import Start
from specbench.train.recipe.schema import Recipe

SHORTEST_ANSWER = 16
"""Tokens behind which the prompt of a made-up conversation ends at the latest."""


def made_up(recipe: Recipe, start: Start) -> Batch:
    """One conversation of equal tokens over hidden states of ones.

    What a network refuses to run, a window for example, it refuses on this as on real data; long
    ones are judged on few rows, so that it takes seconds.
    """
    length = recipe.data.max_prompt_tokens + recipe.data.max_new_tokens
    target = start.target
    device, size = target.device, target.config.get_text_config().hidden_size
    taps = dict.fromkeys([FINAL, *start.taps])
    return Batch(
        torch.zeros(length, dtype=torch.int64, device=device),
        (length,),
        (max(1, length - SHORTEST_ANSWER),),
        {tap: torch.ones(length, size, device=device) for tap in taps},
        torch.zeros(length, device=device),
        torch.zeros(length, dtype=torch.int64, device=device),
    )
