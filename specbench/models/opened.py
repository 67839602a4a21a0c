"""A target as engines use it: loaded, checked, packed; its chat template, stops and KV pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import torch

from specbench.core.limit import Reads
from specbench.core.prompt import Message, RenderedPrompt
from specbench.core.ranks import follows
from specbench.core.request import Stops
from specbench.decoding.kernels.protocol import Kernels
from specbench.decoding.kernels.with_torch import TORCH
from specbench.errors import UsageError
from specbench.models import selfcheck, vocabulary
from specbench.models.attention.backend import attention_named
from specbench.models.attention.sdpa import SDPA
from specbench.models.checkpoint import require_device
from specbench.models.compiled import compile_layers
from specbench.models.device import device_name
from specbench.models.graphs.captured import graphs_on
from specbench.models.kv_pool import KVPool
from specbench.models.linear import pack_linears
from specbench.models.load import LoadedModel, load_model
from specbench.models.locate import locate
from specbench.models.new_model import MARK
from specbench.models.packed import PackedModel
from specbench.models.parallel.group import join, required
from specbench.models.parallel.shard import shard
from specbench.models.quant.settings import quant_of
from specbench.models.reads import reads_of, weights_read
from specbench.models.sampler import sampler_named
from specbench.roofline.need import whole_steps
from specbench.suites.templates import render


@dataclass(frozen=True, slots=True)
class OpenedTarget:
    """A target that is ready to run packed batches.

    Attributes:
        settings: the experiment's ``[target]`` table.
        loaded: model, tokenizer and where they came from.
        model: the packed forward.
        vocabulary: rows of the logits, padding included.
        prepack: whether CPU linears are packed; ``packed_linears`` says how many were.
        self_check: what packed and separate forwards differ by.
        reads: what every forward reads at least; None where that is not known.
        kernels: what applies sampling settings.
    """

    settings: Mapping[str, Any]
    loaded: LoadedModel
    model: PackedModel
    vocabulary: int
    prepack: bool
    packed_linears: int
    self_check: selfcheck.SelfCheck
    reads: Reads | None = None
    kernels: Kernels = TORCH

    @property
    def tie_tolerance(self) -> float:
        """Largest top-2 margin that rounding can flip: twice the measured verify error."""
        return 2 * max(self.self_check.verify_error, self.self_check.packed_error)

    def at_width(self, width: int) -> OpenedTarget:
        """The same target with its rounding measured at this many rows, where they are more.

        Raises:
            PrerequisiteError: rows that depend on how many there are.
        """
        checked = self.self_check
        if width <= checked.width:
            return self
        error = selfcheck.verify_error(self.model, str(self.settings["model"]), width)
        return replace(self, self_check=replace(checked, verify_error=error, width=width))

    def render(
        self, messages: Sequence[Message], passed_on: Mapping[str, object] | None = None
    ) -> RenderedPrompt:
        """Chat template and tokenisation, see ``suites.templates.render``."""
        return render(
            self.loaded.tokenizer,
            messages,
            template=self.settings.get("template"),
            system_policy=self.settings.get("system_policy", "merge-into-user"),
            passed_on=passed_on,
        )

    def stops(self, strings: Sequence[str] = ()) -> Stops:
        """The target's end-of-answer ids and the given strings."""
        return Stops(self.loaded.eos_ids, tuple(strings))

    def new_pool(self, slabs: int, rows: int) -> KVPool:
        """A pool with at least ``rows`` KV rows per slab; the target uses it from now on."""
        captured = self.model.graphs is not None
        pool = KVPool(
            slabs, whole_steps(rows), self.loaded.dtype, self.loaded.device, scratch=captured
        )
        pool.add_owner(self.model.owner, self.model.geometry())
        self.model.use(pool)
        return pool

    def facts(self) -> dict[str, object]:
        """Model, hash, device, numerics and self-check, for records."""
        return {
            "target": model_facts(self.loaded),
            "device": str(self.loaded.device),
            "device_name": device_name(self.loaded.device),
            "reads": None if self.reads is None else asdict(self.reads),
            "attention": self.model.attention.name,
            "sampler": self.kernels.name,
            "graphs": self.model.graphs is not None,
            "compile": bool(self.settings.get("compile")),
            "tensor_parallel": 1 if self.model.group is None else self.model.group.size,
            "packed_linears": self.packed_linears,
            "self_check": asdict(self.self_check),
            "tie_tolerance": self.tie_tolerance,
        }


@dataclass(frozen=True, slots=True)
class Packed:
    """A target that was loaded and packed, and not yet checked.

    Attributes:
        loaded, model, vocabulary, prepack, packed_linears, kernels: as ``OpenedTarget``.
        read: bytes of weights that every forward reads; None where that is not known.
    """

    loaded: LoadedModel
    model: PackedModel
    vocabulary: int
    prepack: bool
    packed_linears: int
    read: int | None
    kernels: Kernels = TORCH


def load_packed(settings: Mapping[str, Any]) -> Packed:
    """Load a target, or this process's part of it.

    Args:
        settings: as for ``open_target``.

    Raises:
        UsageError, PrerequisiteError: no such model, or one that cannot run as asked.
    """
    name, device = str(settings["model"]), str(settings.get("device", "cpu"))
    group = join(shared, device) if (shared := required(settings)) > 1 else None
    device = device if group is None else str(group.device)
    # What cannot run is refused before a model is read.
    attention = attention_named(str(settings.get("attention", SDPA.name)), device)
    kernels = sampler_named(str(settings.get("sampler", TORCH.name)), device)
    graphs = graphs_on(require_device(torch, device)) if settings.get("graphs") else None
    loaded = load_model(
        locate(name, revision=settings.get("revision")),
        dtype=str(settings.get("dtype", "float32")),
        device=device,
        quant=quant_of(settings, "target"),
        split=None if group is None else partial(shard, group=group, name=name),
    )
    selfcheck.refuse_configuration(loaded.config, name)
    prepack = bool(settings.get("prepack", True)) and loaded.device.type == "cpu"
    # What several processes read at once is not the rate of one.
    read = weights_read(loaded.model, loaded.weight_bytes) if group is None else None
    packed_linears = pack_linears(loaded.model) if prepack else 0
    rows = loaded.model.get_input_embeddings().num_embeddings
    padding = vocabulary.padding_mask(rows, vocabulary.real_ids(loaded.tokenizer), loaded.device)
    model = PackedModel(loaded.model, "target", padding, attention, graphs, group)
    if settings.get("compile"):
        compile_layers(loaded.model)
    return Packed(loaded, model, rows, prepack, packed_linears, read, kernels)


def open_target(settings: Mapping[str, Any], width: int) -> OpenedTarget:
    """Load a target and check that its packed forward is right.

    Args:
        settings: the experiment's ``[target]`` table: model, revision, dtype (default float32),
            device, attention, sampler, graphs, compile, tensor_parallel, prepack, template,
            system_policy, quant and its further keys.
        width: rows of the widest forward after a prompt; rounding is measured at this width.

    Raises:
        UsageError, PrerequisiteError: no such model, or one that cannot run packed or quantised.
    """
    if follows(int(settings.get("tensor_parallel", 1))):
        raise UsageError(
            "only `specbench run` shares a target among processes",
            "leave target.tensor_parallel out, and torchrun",
        )
    made = load_packed(settings)
    check = selfcheck.check(made.model, str(settings["model"]), width)
    reads = reads_of(made.read, made.model)
    return OpenedTarget(
        settings,
        made.loaded,
        made.model,
        made.vocabulary,
        made.prepack,
        made.packed_linears,
        check,
        reads,
        made.kernels,
    )


def model_facts(loaded: LoadedModel) -> dict[str, object]:
    """A loaded model by name, revision, weights and numerics."""
    return {
        "name": loaded.location.name,
        "revision": loaded.location.revision,
        "source": loaded.location.source,
        "weight_hash": loaded.weight_hash,
        "weight_bytes": loaded.weight_bytes,
        "dtype": str(loaded.dtype).removeprefix("torch."),
        "quant": loaded.quant.label,
        "layers": int(loaded.config.get_text_config().num_hidden_layers),
        "random_weights": getattr(loaded.config, MARK, None) is not None,
        "context_limit": loaded.context_limit,
        "vocabulary": loaded.real_vocab_size,
    }
