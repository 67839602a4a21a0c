"""Target rows of one step, processed only as far as a rule asks.

Rows are packed: request b owns row ``index[b, 0]`` for its root (the last committed token) and
``index[b, 1 + n]`` for node n. Shapes: B requests, N nodes, M packed rows, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specbench.core.request import Sampling
from specbench.decoding.kernels.protocol import Kernels
from specbench.decoding.kernels.with_torch import TORCH
from specbench.decoding.sampling import RowContext, penalise, probabilities, tempered
from specbench.decoding.transfer import to_device
from specbench.decoding.tree import TokenTree


class BrokenRowsError(ValueError):
    """Rows that name no token; ``requests`` says whose, as places in the batch.

    Args:
        model: whose logits they are.
    """

    def __init__(self, requests: Sequence[int], model: str = "target") -> None:
        self.requests = tuple(requests)
        super().__init__(
            f"the {model}'s logits hold a NaN, an infinity or nothing but -inf: weights, dtype or "
            "attention are broken for this input"
        )


class TargetRows:
    """Logits of the verified positions, with lazily derived views.

    Args:
        logits: [M, V], vocabulary padding already at -inf.
        index: int64 [B, N + 1] row of each position; padding repeats the root's row. Best given on
            the host: ``index`` is then its copy beside the logits, and ``places`` itself.
        sampling: settings of each packed row.
        contexts: tokens before each packed row; only needed where a row is penalised.
        kernels: what applies the settings.
    """

    def __init__(
        self,
        logits: Tensor,
        index: Tensor,
        sampling: Sequence[Sampling],
        contexts: Sequence[RowContext] | None = None,
        kernels: Kernels = TORCH,
    ) -> None:
        self.raw = logits
        self.kernels = kernels
        self.places = index
        self.index = to_device(index, logits.device)
        self.sampling = sampling
        self.all_greedy = all(s.greedy for s in sampling)
        self._contexts = contexts
        self._adjusted: Tensor | None = None
        self._processed: Tensor | None = None
        self._single: dict[int, Tensor] = {}
        self._tempered: Tensor | None = None
        self._argmax: Tensor | None = None

    @property
    def penalised(self) -> bool:
        """Whether rows depend on the tokens before them."""
        return self._contexts is not None

    @property
    def adjusted(self) -> Tensor:
        """Logits [M, V] after penalties and minimum length, before temperature."""
        if self._contexts is None:
            return self.raw
        if self._adjusted is None:
            self._adjusted = penalise(self.raw, self.sampling, self._contexts)
        return self._adjusted

    def adjusted_rows(self, places: Sequence[int]) -> Tensor:
        """``adjusted`` rows [n, V] of some packed rows, as a copy; no others are computed."""
        at = torch.tensor(places, device=self.raw.device)
        if self._contexts is None or self._adjusted is not None:
            return self.adjusted[at]
        chosen = [self._contexts[place] for place in places]
        return penalise(self.raw[at], [self.sampling[place] for place in places], chosen)

    def broken(self) -> list[int]:
        """Requests with a row that names no token: a NaN, an infinity, or nothing but -inf."""
        return [b for b, fine in enumerate(self.sound().tolist()) if not fine]

    def sound(self) -> Tensor:
        """bool [B]: requests whose rows all name a token."""
        # The maximum of a row shows all three and costs one pass.
        return self.raw.amax(1).isfinite()[self.index].all(1)

    def argmax(self) -> Tensor:
        """int64 [B, N + 1]: the target's first choice at every position."""
        if self._argmax is None:
            self._argmax = self.adjusted.argmax(1)
        return self._argmax[self.index]

    def processed(self) -> Tensor:
        """Packed target probabilities [M, V] after all sampling settings."""
        if self._processed is None:
            self._processed = probabilities(self.adjusted, self.sampling, self.kernels)
        return self._processed

    def processed_rows(self, places: Sequence[int]) -> list[Tensor]:
        """Processed rows [V] of some packed rows, not to be written to; no others are computed.

        A tree has many more rows than its accepted path, and each costs a pass over the vocabulary.
        """
        if self._processed is not None:
            return [self._processed[place] for place in places]
        missing = [place for place in dict.fromkeys(places) if place not in self._single]
        if missing:
            settings = [self.sampling[place] for place in missing]
            found = probabilities(self.adjusted_rows(missing), settings, self.kernels)
            self._single.update(zip(missing, found.unbind(), strict=True))
        return [self._single[place] for place in places]

    def tempered(self) -> Tensor:
        """Packed softmax(logits / temperature) [M, V] without truncation; greedy rows one-hot."""
        if self._tempered is None:
            whole = [Sampling(temperature=s.temperature) for s in self.sampling]
            same = all(s.untruncated for s in self.sampling)
            self._tempered = (
                self.processed() if same else probabilities(self.adjusted, whole, self.kernels)
            )
        return self._tempered

    def untempered(self) -> Tensor:
        """Packed softmax(logits) [M, V] at temperature 1, without truncation."""
        return tempered(self.adjusted, 1.0)

    def before(self, tree: TokenTree) -> Tensor:
        """int64 [B, N]: the packed row that judges each node, that of its parent."""
        if tree.chain:
            return self.index[:, :-1]
        return self.index.gather(1, tree.parents + 1)

    def token_probs(self, tree: TokenTree) -> Tensor:
        """float32 [B, N]: processed probability of every node's token at its parent.

        Ids out of range give 0.
        """
        return self.pick(self.processed(), tree)

    def pick(self, packed: Tensor, tree: TokenTree) -> Tensor:
        """[B, N]: entry of every node's token in the packed row of its parent; 0 out of range."""
        inside = (tree.ids >= 0) & (tree.ids < packed.shape[1])
        return torch.where(inside, packed[self.before(tree), torch.where(inside, tree.ids, 0)], 0.0)

    def repeat(self, request: int, times: int, nodes: int) -> TargetRows:
        """One request's rows as a batch of ``times``; what was derived is shared, not copied.

        ``nodes`` are its own, without the padding to those of its neighbours.
        """
        index = self.index[request : request + 1, : nodes + 1].expand(times, -1)
        copy = TargetRows(self.raw, index, self.sampling, self._contexts, self.kernels)
        copy._adjusted, copy._processed = self._adjusted, self._processed
        copy._single = self._single
        copy._tempered, copy._argmax = self._tempered, self._argmax
        return copy

    def at(self, position: Tensor) -> Tensor:
        """Processed rows [B, V] at one position per request (0 = root)."""
        return self.processed()[self.index.gather(1, position[:, None]).squeeze(1)]


def refuse_broken(rows: TargetRows) -> None:
    """Raise ``BrokenRowsError`` where a request has a row that names no token."""
    broken = rows.broken()
    if broken:
        raise BrokenRowsError(broken)
