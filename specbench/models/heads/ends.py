"""Both ends of a drafting head: the embedding and the output projection, its own or the target's.

Shapes: T slots, M rows, H hidden size of the head, Ht of the target, V target vocabulary, Vd the
head's.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from specbench.decoding.protocols import Tap
from specbench.errors import PrerequisiteError
from specbench.models.heads.lent import lent_rows
from specbench.models.load import LoadedModel
from specbench.models.parallel.shard import JoinedOutput


@dataclass(frozen=True, slots=True)
class Ends:
    """Sizes of both ends, and what the checkpoint has of them.

    Attributes:
        hidden: H.
        vocabulary: V, rows of the embedding.
        rows: Vd, rows of the output projection.
        taps: hidden states of the target.
        names: names of all tensors of the checkpoint.
        name: of the checkpoint, for messages.
        projection: name of the output projection's module.
    """

    hidden: int
    vocabulary: int
    rows: int
    taps: tuple[Tap, ...]
    names: Collection[str]
    name: str
    projection: str = "lm_head"


class LendingHead(nn.Module):
    """Base of heads whose ends may be the target's.

    What the target lends is no submodule: it is not saved, packed or counted with the head. Where
    a head drafts some of the target's tokens and has no output projection, it gets a copy of the
    target's rows of these tokens (``take_rows``). The copy is no tensor of a checkpoint and is
    never trained, but it takes memory of its own: it is packed, quantised and counted in
    ``weight_bytes`` as if the head had brought it.
    ``models.heads.build`` sets ``dtype``, ``device`` and ``weight_bytes`` once tensors are in.

    Args:
        ends: sizes, and which tensors there are.
        target: the lender.

    Raises:
        PrerequisiteError: the checkpoint lacks an end that the target's cannot stand in for.
    """

    taps: tuple[Tap, ...]
    target_ids: Tensor | None
    dtype: torch.dtype
    device: torch.device
    weight_bytes: int

    def __init__(self, ends: Ends, target: LoadedModel) -> None:
        super().__init__()
        self.taps = ends.taps
        self._lent = (target.model.get_input_embeddings(), target.model.get_output_embeddings())
        self._projection = ends.projection
        self.embed_tokens: nn.Embedding | None = None
        if "embed_tokens.weight" in ends.names:
            self.embed_tokens = nn.Embedding(ends.vocabulary, ends.hidden)
        else:
            _fits(ends, "embed_tokens", self._lent[0].weight.shape, ends.vocabulary)
        own = None
        mapped = "target_ids" in ends.names
        if f"{ends.projection}.weight" in ends.names:
            own = nn.Linear(ends.hidden, ends.rows, bias=False)
        else:
            lent = ends.vocabulary if mapped else ends.rows
            _fits(ends, ends.projection, _shape(self._lent[1]), lent)
        self.register_module(ends.projection, own)
        self.register_buffer(
            "target_ids", torch.zeros(ends.rows, dtype=torch.int64) if mapped else None
        )

    def take_rows(self, name: str) -> None:
        """Copy the target's output rows of ``target_ids`` where the head has no projection.

        To be called once tensors are in. The copy has the head's data type.

        Args:
            name: of the checkpoint, for messages.

        Raises:
            PrerequisiteError: the target's output projection is quantised.
        """
        if self.target_ids is not None and getattr(self, self._projection) is None:
            rows = lent_rows(self._lent[1], self.target_ids, self.dtype, name)
            self.register_module(self._projection, rows)

    def embed(self, ids: Tensor) -> Tensor:
        """Embeddings [T, H] of target ids int64 [T]."""
        # The table itself: some targets scale what their embedding module returns.
        table = self._lent[0] if self.embed_tokens is None else self.embed_tokens
        return functional.embedding(ids, table.weight).to(self.dtype)

    def project(self, states: Tensor) -> Tensor:
        """Logits [M, Vd] of normed states [M, H]."""
        own = getattr(self, self._projection)
        if own is not None:
            return own(states)
        output, given = self._lent[1], states.to(self._lent[0].weight.dtype)
        # Heads project on the leader, without the processes that share the target.
        return output.alone(given) if isinstance(output, JoinedOutput) else output(given)


def _shape(module: Any) -> tuple[int, int] | None:
    """[rows, width] of a target's output projection, packed or not."""
    return None if module is None else (module.out_features, module.in_features)


def _fits(ends: Ends, part: str, lent: Any, rows: int) -> None:
    """Raise where the target's end cannot stand in for a missing one."""
    wanted = [rows, ends.hidden]
    if lent is None or list(lent) != wanted:
        has = "has none" if lent is None else f"is {list(lent)}"
        raise PrerequisiteError(
            f"{ends.name}: {part}.weight is missing, wanted {wanted}, and the target's {has}",
            "use a head that was made for this target",
        )
