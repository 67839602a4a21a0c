"""What new heads are made from: a target's numbers and tensors, and random weights."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from specbench.errors import PrerequisiteError
from specbench.models.heads.files import Checkpoint
from specbench.models.heads.plan import require_plain
from specbench.models.heads.target_facts import TargetFacts
from specbench.models.heads.tensors import load_tensors

SPREAD, SMALL = 0.02, 0.002
"""Standard deviations: usual at the start of training; of what adds to the residual stream."""


@dataclass(frozen=True, slots=True)
class Maker:
    """Makes tensors for one new head.

    Attributes:
        target, files: what it is to fit.
        layout: in which it will be written.
        generator: of the random weights.
        dtype: of all tensors.
        draft_ids: the target's ids that the head drafts, rising; None for all.
        heads: of a Medusa checkpoint.
    """

    target: TargetFacts
    files: Checkpoint
    layout: str
    generator: torch.Generator
    dtype: torch.dtype
    draft_ids: list[int] | None
    heads: int

    @property
    def drafted(self) -> int:
        """Vd."""
        return self.target.vocabulary if self.draft_ids is None else len(self.draft_ids)

    def token_map(self) -> dict[str, Tensor]:
        """``target_ids`` int64 [Vd]; nothing where all tokens are drafted."""
        return {} if self.draft_ids is None else {"target_ids": torch.tensor(self.draft_ids)}

    def noise(self, *shape: int, spread: float = SPREAD) -> Tensor:
        """Normal values."""
        values = torch.randn(*shape, generator=self.generator) * spread
        return values.to(self.dtype)

    def like(self, name: str, tensor: Tensor) -> Tensor:
        """A new tensor in the place of one of a target's layer, by its name and shape.

        Norms scale nothing, biases are 0, and what adds to the residual stream is small.
        """
        if tensor.dim() < 2:
            fill = torch.ones_like if name.endswith("norm.weight") else torch.zeros_like
            return fill(tensor)
        adds = name.endswith(("o_proj.weight", "down_proj.weight"))
        return self.noise(*tensor.shape, spread=SMALL if adds else SPREAD)

    def ones(self) -> Tensor:
        """Weights [H] of a norm that scales nothing."""
        return torch.ones(self.target.hidden, dtype=self.dtype)

    def passing(self, parts: int, place: int, *, spread: float = 0.0) -> Tensor:
        """Projection [H, parts * H] that passes one part on, the others with little weight."""
        size = self.target.hidden
        matrix = self.noise(size, parts * size, spread=spread)
        matrix[:, place * size : (place + 1) * size] = torch.eye(size, dtype=self.dtype)
        return matrix

    def output_rows(self) -> Tensor:
        """The target's output projection [Vd, H]; of its embedding where the two are tied."""
        tied = "lm_head.weight" not in self.files
        (rows,) = self.from_target("model.embed_tokens.weight" if tied else "lm_head.weight")
        return rows if self.draft_ids is None else rows[self.draft_ids]

    def from_target(self, *names: str) -> list[Tensor]:
        """Tensors of the target.

        Raises:
            PrerequisiteError: they are not there, or are quantised.
        """
        if missing := [name for name in names if name not in self.files]:
            raise PrerequisiteError(
                f"{self.files.path} has no tensor {missing[0]}",
                "new heads of this family are made for targets with Llama's tensor names only",
            )
        require_plain(self.files, list(names))
        found = load_tensors(self.files, names)
        return [found[name].to(self.dtype).clone() for name in names]
