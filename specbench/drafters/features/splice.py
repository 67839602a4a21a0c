"""Accepted tokens put behind their slots on the device, before the host knows how many there are.

Source: the order of work of one-token MTP in serving engines (DeepSeek-AI 2412.19437, section
2.2, has the module): all rows that were verified are fed to the head again, accepted or not, and
only the row behind the last accepted token is read. Shapes: B requests, N nodes of their chains.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from specbench.decoding.protocols import Acceptance
from specbench.decoding.transfer import to_device
from specbench.decoding.tree import TokenTree


def spliced(tree: TokenTree, acceptance: Acceptance, vocabulary: int) -> tuple[Tensor, Tensor]:
    """The token behind every verified row, and which row each request goes on from.

    The root's slot takes the first accepted token, an accepted node's slot the next one, the last
    of them the token that the rule added. Slots behind that one take it again: nobody reads them,
    and the next pass writes over them.

    Args:
        tree: chains; request b was verified in 1 + ``counts[b]`` packed rows.
        acceptance: their verdict, on the device.
        vocabulary: V; an id beyond it, drawn from a broken row, becomes the last one.

    Returns:
        int64 [T] tokens in packed order, and int64 [B] packed rows.
    """
    device, count = acceptance.n_accepted.device, acceptance.n_accepted
    sizes = np.array(tree.counts) + 1
    first = np.cumsum(sizes) - sizes
    slots = torch.arange(tree.width + 1, device=device)
    following = acceptance.next_token[:, None]
    # The slot of node i takes the token of node i + 1, as far as that was accepted.
    shifted = torch.cat([tree.ids.to(device), following], 1)
    table = torch.where(slots < count[:, None], shifted, following).clamp(0, vocabulary - 1)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    flat = np.arange(sizes.sum()) - first[owner] + owner * (tree.width + 1)
    tokens = table.flatten()[to_device(torch.from_numpy(flat), device)]
    return tokens, to_device(torch.from_numpy(first), device) + count
