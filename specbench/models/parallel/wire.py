"""What the leader tells the followers: small commands between hosts, tensors between devices.

A command is JSON in a frame of fixed size, so that most take one broadcast. Nothing is pickled.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, distributed

from specbench.errors import SpecbenchError
from specbench.models.packed_batch import Segment
from specbench.models.parallel.group import Group

FRAME = 4096
"""Bytes of a broadcast, the first eight of which are a length."""
_HEADER = 8


def send(group: Group, command: Mapping[str, Any]) -> None:
    """Tell all followers. SpecbenchError where one of them is gone."""
    text = torch.frombuffer(bytearray(json.dumps(command).encode()), dtype=torch.uint8)
    frame = torch.zeros(FRAME, dtype=torch.uint8)
    frame[:_HEADER] = torch.frombuffer(
        bytearray(len(text).to_bytes(_HEADER, "little")), dtype=torch.uint8
    )
    head = text[: FRAME - _HEADER]
    frame[_HEADER : _HEADER + len(head)] = head
    _broadcast(frame, group.commands)
    if len(text) > len(head):
        _broadcast(text[len(head) :].clone(), group.commands)


def receive(group: Group) -> dict[str, Any]:
    """Wait for the next command. SpecbenchError where the leader is gone."""
    frame = torch.zeros(FRAME, dtype=torch.uint8)
    _broadcast(frame, group.commands)
    length = int.from_bytes(bytes(frame[:_HEADER].tolist()), "little")
    text = frame[_HEADER : _HEADER + length]
    if length > len(text):
        rest = torch.zeros(length - len(text), dtype=torch.uint8)
        _broadcast(rest, group.commands)
        text = torch.cat([text, rest])
    found: dict[str, Any] = json.loads(bytes(text.tolist()))
    return found


def share(group: Group, tensor: Tensor) -> Tensor:
    """The leader's tensor, on every device; followers pass one of its shape and type."""
    tensor = tensor.contiguous()
    _broadcast(tensor, group.tensors)
    return tensor


def _broadcast(tensor: Tensor, group: Any) -> None:
    try:
        distributed.broadcast(tensor, 0, group=group)
    except RuntimeError as error:
        raise SpecbenchError(
            f"a process of the tensor-parallel group is gone: {str(error).splitlines()[0]}",
            "its own message says why; start the run again with --resume",
        ) from error


def encode(segments: Sequence[Segment]) -> list[list[Any]]:
    """Segments as JSON: slab, start, count, rows of visibility as numbers, depths."""
    return [
        [
            segment.slab,
            segment.start,
            segment.count,
            None if segment.visible is None else segment.visible.int().tolist(),
            None if segment.depths is None else segment.depths.tolist(),
        ]
        for segment in segments
    ]


def decode(lines: Sequence[Sequence[Any]]) -> list[Segment]:
    """Segments from JSON."""
    return [
        Segment(
            slab,
            start,
            count,
            None if visible is None else torch.tensor(visible, dtype=torch.bool),
            None if depths is None else torch.tensor(depths),
        )
        for slab, start, count, visible, depths in lines
    ]
