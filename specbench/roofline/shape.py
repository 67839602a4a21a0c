"""What of a model decides bytes and FLOPs of a forward; norms and biases (< 0.1 %) are left out.

Shapes: H hidden size, V vocabulary, Hq and Hkv heads for queries and for keys, D head size.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Attention:
    """What one layer keeps of a token, and what a query does with a key.

    Attributes:
        kv_elements: kept per token: 2 Hkv D, or the latent of MLA and its rotary part.
        pair_flops: of a query position and a key position, all heads: scores and values.
        window: tokens that a query sees, itself among them; None sees all.
    """

    kv_elements: int
    pair_flops: int
    window: int | None = None


def grouped(heads: int, kv_heads: int, size: int, window: int | None = None) -> Attention:
    """Attention of Hq heads that share the keys of Hkv."""
    return Attention(2 * kv_heads * size, 4 * heads * size, window)


def latent(heads: int, rank: int, rotary: int) -> Attention:
    """DeepSeek's MLA as it is decoded: all heads read one latent, which is key and value.

    Args:
        heads: Hq.
        rank: of the latent.
        rotary: size of the rotary key that lies beside it.
    """
    return Attention(rank + rotary, 2 * heads * (2 * rank + rotary))


@dataclass(frozen=True, slots=True)
class Experts:
    """Routed experts of a layer.

    Attributes:
        total: E.
        chosen: how many each token meets.
        parameters: of one.
    """

    total: int
    chosen: int
    parameters: int


@dataclass(frozen=True, slots=True)
class Layers:
    """Layers that are alike.

    Attributes:
        count: how many.
        matrices: parameters of one that every token meets: projections of the attention, and the
            MLP or the router and the shared experts.
        attention: None for layers that see one position alone.
        experts: None where nothing is routed.
    """

    count: int
    matrices: int
    attention: Attention | None
    experts: Experts | None = None


@dataclass(frozen=True, slots=True)
class Shape:
    """A model, or a drafting head.

    Attributes:
        name: for people.
        hidden, vocabulary: H, V.
        layers: groups of like ones, the last layer's at the end.
        output_rows: rows of the output projection; V, or the draft's vocabulary.
        own_embedding, own_output: whether it stores them. A tied output projection, or one that is
            the target's, is read all the same.
        output_uses: how often a position meets the output projection: once for each Medusa head
            that shares it.
        answers: tokens that one forward drafts: 1, or as many as there are Medusa heads.
    """

    name: str
    hidden: int
    vocabulary: int
    layers: tuple[Layers, ...]
    output_rows: int
    own_embedding: bool = True
    own_output: bool = True
    output_uses: int = 1
    answers: int = 1

    @property
    def depth(self) -> int:
        """Number of layers."""
        return sum(layers.count for layers in self.layers)

    @property
    def output(self) -> int:
        """Parameters of the output projection, stored or not."""
        return self.output_rows * self.hidden

    @property
    def matrices(self) -> int:
        """Parameters of all layers that every token meets."""
        return sum(layers.count * layers.matrices for layers in self.layers)

    @property
    def expert_parameters(self) -> int:
        """Parameters of all routed experts."""
        return sum(
            layers.count * layers.experts.total * layers.experts.parameters
            for layers in self.layers
            if layers.experts
        )

    @property
    def ends(self) -> int:
        """Parameters of the embedding and the output projection, as far as it stores them."""
        embedding = self.vocabulary * self.hidden if self.own_embedding else 0
        return embedding + (self.output if self.own_output else 0)

    @property
    def parameters(self) -> int:
        """All that it stores."""
        return self.matrices + self.expert_parameters + self.ends

    @property
    def active(self) -> int:
        """Parameters that one token meets; of the embedding it meets one row, which is left out."""
        chosen = sum(
            layers.count * layers.experts.chosen * layers.experts.parameters
            for layers in self.layers
            if layers.experts
        )
        return self.matrices + chosen + self.output
