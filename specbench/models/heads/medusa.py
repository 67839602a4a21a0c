"""The network of Medusa heads (Cai et al. 2401.10774, section 2.1; ALGORITHMS 3.6).

All heads read the target's final hidden state of one position t: head i, counted from 0, predicts
the token at t + 2 + i, because the target itself predicts the one at t + 1. A head is residual
blocks x + SiLU(W x + b) and a projection to the vocabulary: its own, one for all heads, or the
target's, of which heads that draft some tokens take the rows of these. Shapes: n positions, c
heads, H hidden size of the target, Vd rows of the projections, V vocabulary of the target.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from specbench.errors import PrerequisiteError
from specbench.models.checkpoint import materialise
from specbench.models.heads.configs import HeadCheckpoint, MedusaConfig
from specbench.models.heads.fill import fill
from specbench.models.heads.lent import check_map, lent_rows
from specbench.models.linear import pack_linears
from specbench.models.load import LoadedModel
from specbench.models.weights import weight_bytes


class ParallelHeads(nn.Module):
    """Heads that predict several tokens from one hidden state, none seeing another's.

    Args:
        config: what they are.
        target: lends its output projection where they have none; it is no submodule.
        mapped: whether the checkpoint says which tokens the rows are.
        vocabulary: V.
        padding: bool [V] of rows without a token, or None.

    Attributes:
        taps: the hidden state that they read.
        count: how many heads there are.
        dtype: of their weights.
        target_ids: int64 [Vd] the target's id of every row of logits; None = the same ids.
        weight_bytes: bytes of tensors that are not the target's; a copy of some of its output rows
            takes memory of its own and counts.
    """

    dtype: torch.dtype
    weight_bytes: int
    target_ids: Tensor | None

    def __init__(
        self,
        config: MedusaConfig,
        target: LoadedModel,
        mapped: bool,
        vocabulary: int,
        padding: Tensor | None,
    ) -> None:
        super().__init__()
        self.taps = config.taps
        self.count = config.heads
        self.heads = nn.ModuleList(_Head(config) for _ in range(config.heads))
        self._projected = config.projection == "own"
        self.projection = _projection(config) if config.projection == "one" else None
        ids = torch.zeros(config.draft_vocabulary, dtype=torch.int64) if mapped else None
        self.register_buffer("target_ids", ids)
        # In a tuple, a module is not registered.
        self._lent = (target.model.get_output_embeddings(),)
        self._lent_dtype = target.dtype
        self._vocabulary = vocabulary
        self._padding = padding

    @torch.inference_mode()
    def forward(self, hidden: Tensor, count: int) -> Tensor:
        """Logits [n, c, V'] of the first ``count`` heads, -inf at rows without a token.

        V' is V, or what the projections have where they are no part of it.
        """
        return self._widen(self.logits(hidden, count))

    def logits(self, hidden: Tensor, count: int) -> Tensor:
        """Logits [n, c, Vd] of the first ``count`` heads in their own vocabulary, from [n, H]."""
        entering = hidden.to(self.dtype)
        states = torch.stack([head(entering) for head in list(self.heads)[:count]], 1)
        if self._projected:
            return states
        if self.projection is not None:
            return self.projection(states)
        return self._lent[0](states.to(self._lent_dtype))

    def _widen(self, logits: Tensor) -> Tensor:
        """Logits [n, c, Vd] in the target's vocabulary, padding masked."""
        if self.target_ids is not None:
            wide = logits.new_full((*logits.shape[:2], self._vocabulary), -torch.inf)
            logits = wide.index_copy_(2, self.target_ids, logits)
        if self._padding is not None:
            logits = logits[..., : self._vocabulary]
            logits = logits.masked_fill(self._padding[: logits.shape[2]], -torch.inf)
        return logits


class _Head(nn.Module):
    """Residual blocks, and the head's own projection where it has one."""

    def __init__(self, config: MedusaConfig) -> None:
        super().__init__()
        size = config.hidden
        self.blocks = nn.ModuleList(
            nn.Linear(size, size, bias=config.bias) for _ in range(config.blocks)
        )
        self.projection = _projection(config) if config.projection == "own" else None

    def forward(self, hidden: Tensor) -> Tensor:
        """Logits [n, Vd] with a projection of its own, states [n, H] without."""
        for block in self.blocks:
            hidden = hidden + functional.silu(block(hidden))
        return hidden if self.projection is None else self.projection(hidden)


def _projection(config: MedusaConfig) -> nn.Linear:
    return nn.Linear(config.hidden, config.draft_vocabulary, bias=False)


def build_parallel_heads(
    checkpoint: HeadCheckpoint,
    target: LoadedModel,
    *,
    vocabulary: int,
    padding: Tensor | None = None,
    prepack: bool = False,
) -> ParallelHeads:
    """The heads of a checkpoint on the target's device.

    Args:
        checkpoint: of family ``medusa``, read with ``read_head``.
        target: lends its output projection.
        vocabulary: V, rows of the target's logits.
        padding: bool [V] of rows without a token, or None.
        prepack: whether linear layers are packed for a CPU.

    Raises:
        PrerequisiteError: tensors that are missing, left over, or of another shape, a map that
            leads out of the vocabulary, or a target whose output projection cannot stand in for
            the heads' own.
    """
    config = checkpoint.config
    assert isinstance(config, MedusaConfig), checkpoint.family
    name = checkpoint.name or checkpoint.family
    if config.projection == "target":
        _check_lent(config, target, name)
    # Laid out without storage first: the checkpoint's tensors become the weights.
    with torch.device("meta"):
        mapped = "target_ids" in checkpoint.tensors
        heads = ParallelHeads(config, target, mapped, vocabulary, padding)
    fill(heads, checkpoint.tensors, name)
    check_map(checkpoint, vocabulary, name)
    heads.eval().requires_grad_(False)
    heads.dtype = checkpoint.dtype
    if config.projection == "target" and heads.target_ids is not None:
        output = target.model.get_output_embeddings()
        heads.projection = lent_rows(output, heads.target_ids, heads.dtype, name)
    on_cpu = target.device.type == "cpu"
    if on_cpu:
        materialise(heads)
    heads.to(target.device)
    heads.weight_bytes = weight_bytes(heads)
    if prepack and on_cpu:
        pack_linears(heads)
    return heads


def _check_lent(config: MedusaConfig, target: LoadedModel, name: str) -> None:
    """Raise where the target's output projection cannot read the heads' states."""
    lent = target.model.get_output_embeddings()
    if lent is None or lent.in_features != config.hidden:
        has = "has none" if lent is None else f"reads {lent.in_features} columns"
        raise PrerequisiteError(
            f"{name}: no projection, hidden size {config.hidden}; the target's output projection "
            f"{has}",
            "use heads that were made for this target",
        )
