"""What a target and its draft hold: weights, keys and values, and how many requests still fit."""

from __future__ import annotations

from dataclasses import dataclass

from specbench.roofline.cost import Precision
from specbench.roofline.shape import Attention, Shape

USABLE = 0.9
"""Share of a device's memory that weights and KV may take; serving engines begin with this one."""


def weight_bytes(shape: Shape, precision: Precision) -> float:
    """Bytes of all weights that it stores."""
    return (
        shape.matrices * precision.matrix_bits
        + shape.expert_parameters * precision.expert_bits
        + shape.ends * precision.end_bits
    ) / 8


def kv_token_bytes(shape: Shape, precision: Precision) -> float:
    """Bytes that one more token takes in all layers, those with a window among them."""
    return sum(n * attention.kv_elements for n, attention in _cached(shape)) * precision.kv_bits / 8


def kv_request_bytes(shape: Shape, precision: Precision, context: int) -> float:
    """Bytes of a request of so many tokens; layers with a window keep no more than it."""
    elements = sum(
        count * attention.kv_elements * min(context, attention.window or context)
        for count, attention in _cached(shape)
    )
    return elements * precision.kv_bits / 8


def _cached(shape: Shape) -> list[tuple[int, Attention]]:
    return [(layers.count, layers.attention) for layers in shape.layers if layers.attention]


@dataclass(frozen=True, slots=True)
class Room:
    """What fits beside each other.

    Attributes:
        weights: bytes of the target's, and of the draft's.
        request: bytes of a request's KV in the target, and in the draft.
        alone, together: requests that fit without and with the draft; None where weights do not.
    """

    weights: tuple[float, float]
    request: tuple[float, float]
    alone: int | None
    together: int | None

    def holds(self, requests: int) -> bool:
        """Whether so many requests fit, beside the draft if there is one."""
        return self.together is not None and requests <= self.together

    @property
    def lost(self) -> int | None:
        """Requests that the draft takes the place of; None where the weights do not fit."""
        if self.alone is None or self.together is None:
            return None
        return self.alone - self.together


Stored = tuple[Shape, Precision]


def room(target: Stored, draft: Stored | None, memory: float, context: int) -> Room:
    """How many requests of so many tokens fit into so many bytes, without and with a draft."""
    weights = (weight_bytes(*target), weight_bytes(*draft) if draft else 0.0)
    request = (
        kv_request_bytes(*target, context),
        kv_request_bytes(*draft, context) if draft else 0.0,
    )
    return Room(
        weights,
        request,
        _fitting(memory - weights[0], request[0]),
        _fitting(memory - sum(weights), sum(request)),
    )


def _fitting(left: float, request: float) -> int | None:
    return int(left // request) if left >= 0 else None
