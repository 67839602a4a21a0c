"""Sharding a loaded model by transformers' own plan for it.

The plan is data of the model's configuration (``base_model_tp_plan``, and ``_tp_plan`` of the class
around it): a style for every linear layer. It is applied here and not by transformers, whose code
for it changes from release to release and loads shards in ways of its own. Styles: ``colwise``
(output features split, nothing sent), ``rowwise`` (input features split, outputs summed over all),
and those that keep a layer whole. The output projection is split over the vocabulary and its rows
are joined. Shapes: N processes, V rows of the output projection.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.nn import functional

from specbench.errors import PrerequisiteError
from specbench.models.parallel.group import Group

_WHOLE = ("replicated_with_grad_allreduce", "replicated")
_OTHER = "leave target.tensor_parallel out, or name another target"


class SummedLinear(nn.Module):
    """A linear layer of which every process has some input features.

    Args:
        linear: this process's columns, without a bias.
        bias: added once, after the sum.
        group: who is summed over.
    """

    bias: Tensor | None

    def __init__(self, linear: nn.Linear, bias: Tensor | None, group: Group) -> None:
        super().__init__()
        self.linear = linear
        self.register_buffer("bias", bias)
        self._group = group

    def forward(self, rows: Tensor) -> Tensor:
        """[..., own input features] to [..., all output features]."""
        output: Tensor = self.linear(rows)
        distributed.all_reduce(output, group=self._group.tensors)
        return output if self.bias is None else output + self.bias


class JoinedOutput(nn.Module):
    """The output projection, of which every process has some rows of the vocabulary.

    Attributes:
        weight, bias: whole, for heads that project with them; None once ``drop_whole`` was called.
        in_features, out_features: of the whole.

    Args:
        output: the whole projection.
        group: the processes.
    """

    weight: Tensor | None
    bias: Any

    def __init__(self, output: nn.Linear, group: Group) -> None:
        super().__init__()
        self.in_features, self.out_features = output.in_features, output.out_features
        self.weight, self.bias = output.weight, output.bias
        rows = -(-output.out_features // group.size)
        first = group.rank * rows
        # The last process pads: all send as many rows.
        own = torch.zeros(rows, output.in_features, dtype=output.weight.dtype)
        part = output.weight[first : first + rows].detach()
        own[: len(part)] = part
        bias = None
        if output.bias is not None:
            bias = torch.zeros(rows, dtype=output.bias.dtype)
            bias[: len(part)] = output.bias[first : first + rows].detach()
        self.linear = _linear(own, bias)
        self._group = group

    def forward(self, rows: Tensor) -> Tensor:
        """[..., H] to logits [..., V], on every process."""
        if not rows.numel():
            return rows.new_empty(*rows.shape[:-1], self.out_features)
        own: Tensor = self.linear(rows).contiguous()
        parts = [torch.empty_like(own) for _ in range(self._group.size)]
        distributed.all_gather(parts, own, group=self._group.tensors)
        return torch.cat(parts, -1)[..., : self.out_features]

    def drop_whole(self) -> None:
        """Keep this process's rows alone: heads project on the leader."""
        self.weight = self.bias = None

    def alone(self, rows: Tensor) -> Tensor:
        """The same on the leader, without the others."""
        assert self.weight is not None, "a follower has rows of its own alone"
        return functional.linear(rows, self.weight, self.bias)


def shard(model: Any, group: Group, name: str) -> None:
    """Keep of a causal LM what this process computes.

    Args:
        model: loaded whole, on the CPU.
        group: the processes.
        name: for messages.

    Raises:
        PrerequisiteError: no plan, a style that is not known, or sizes that do not divide.
    """
    config = model.config.get_text_config()
    plan = getattr(config, "base_model_tp_plan", None)
    if not plan:
        raise PrerequisiteError(f"{name}: transformers has no tensor-parallel plan for it", _OTHER)
    heads = config.num_key_value_heads or config.num_attention_heads
    if heads % group.size or config.num_attention_heads % group.size:
        raise PrerequisiteError(
            f"{name} has {config.num_attention_heads} attention heads and {heads} for keys and "
            f"values, which {group.size} processes cannot share evenly",
            "set target.tensor_parallel to a divisor of both",
        )
    shard_layers(model.base_model, plan, group, name)
    output = model.get_output_embeddings()
    if type(output) is not nn.Linear:
        raise PrerequisiteError(
            f"{name}: its output projection is a {type(output).__name__}", _OTHER
        )
    model.set_output_embeddings(JoinedOutput(output, group))


def shard_head(head: Any, config: Any, group: Group, name: str) -> None:
    """Keep of a head with one layer of the target's kind what this process computes.

    Args:
        head: its module ``layer`` is sharded as the target's layers are; its ends stay whole.
        config: the target's.
        group: the processes.
        name: for messages.
    """
    plan = config.get_text_config().base_model_tp_plan
    start = "layers.*."
    own = {place[len(start) :]: style for place, style in plan.items() if place.startswith(start)}
    shard_layers(head.layer, own, group, name)


def shard_layers(base: nn.Module, plan: Mapping[str, str], group: Group, name: str) -> None:
    """Shard the linear layers that a plan names, with ``*`` for the number of a layer."""
    modules = dict(base.named_modules())
    for pattern, style in plan.items():
        wanted = re.compile(re.escape(pattern).replace(r"\*", r"\d+"))
        for place, module in modules.items():
            if wanted.fullmatch(place) and style not in _WHOLE:
                parent, _, child = place.rpartition(".")
                setattr(modules[parent], child, _sharded(module, style, group, f"{name}: {place}"))


def _sharded(module: nn.Module, style: str, group: Group, place: str) -> nn.Module:
    """One linear layer in a style of the plan."""
    if style not in ("colwise", "rowwise") or type(module) is not nn.Linear:
        raise PrerequisiteError(
            f"{place}: a {type(module).__name__} is not sharded as {style} here",
            _OTHER,
        )
    size = module.out_features if style == "colwise" else module.in_features
    if size % group.size:
        raise PrerequisiteError(
            f"{place} has {size} features, which {group.size} processes cannot share evenly",
            "set target.tensor_parallel to a divisor of it",
        )
    part = slice(group.rank * size // group.size, (group.rank + 1) * size // group.size)
    if style == "colwise":
        bias = None if module.bias is None else module.bias[part]
        return _linear(module.weight[part], bias)
    bias = None if module.bias is None else module.bias.detach().clone()
    return SummedLinear(_linear(module.weight[:, part], None), bias, group)


def _linear(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    """A linear layer of copies: what a process does not need is not kept alive."""
    made = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
    made.weight = nn.Parameter(weight.detach().clone(), requires_grad=False)
    if bias is not None:
        made.bias = nn.Parameter(bias.detach().clone(), requires_grad=False)
    return made
