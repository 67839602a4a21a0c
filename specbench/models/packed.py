"""A Hugging Face causal LM as one packed ragged forward over the KV pool.

Modelling code stays in transformers. specbench registers one attention function; the planned
batch reaches it as a keyword argument of ``forward``. An attention name that the mask registry
does not know makes transformers build no mask, which also avoids a device synchronisation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from specbench.decoding.protocols import Tap
from specbench.models.attention.backend import Attention, Plan
from specbench.models.attention.called import Observer, attention_name
from specbench.models.attention.sdpa import SDPA
from specbench.models.graphs.buckets import Bucket
from specbench.models.graphs.captured import Graphs, Kind, Run, Work
from specbench.models.graphs.record import Outputs
from specbench.models.kv_pool import LayerGeometry
from specbench.models.packed_batch import PackedBatch
from specbench.models.parallel.group import Group
from specbench.models.pooled import Pooled


def layer_geometry(config: Any) -> LayerGeometry:
    """Keys and values per token of one layer, from a text configuration."""
    if getattr(config, "kv_lora_rank", None):
        # Latents of multi-head latent attention are expanded before the attention function.
        keys = config.qk_nope_head_dim + config.qk_rope_head_dim
        return LayerGeometry(config.num_attention_heads, keys, config.v_head_dim)
    heads = config.num_key_value_heads or config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return LayerGeometry(heads, size, size)


class PackedModel(Pooled):
    """A causal LM that runs packed batches for one owner of the pool.

    Args:
        model: transformers model in eval mode.
        owner: name of its storage in the pool.
        padding: bool [V] of vocabulary rows that have no token, or None; their logits become -inf.
        attention: the back end.
        graphs: captured forwards, or None.
        group: processes that share every layer.
    """

    def __init__(
        self,
        model: Any,
        owner: str,
        padding: Tensor | None = None,
        attention: Attention = SDPA,
        graphs: Graphs | None = None,
        group: Group | None = None,
    ) -> None:
        model.set_attn_implementation(attention_name())
        config = model.config.get_text_config()
        layers = [layer_geometry(config)] * config.num_hidden_layers
        dtype = next(model.parameters()).dtype
        super().__init__(owner, layers, dtype, attention, graphs, group)
        self.model = model
        self.padding = padding if padding is not None and bool(padding.any()) else None
        self.observer: Observer | None = None

    @torch.inference_mode()
    def forward(
        self, batch: PackedBatch, taps: Sequence[Tap] = ()
    ) -> tuple[Tensor, dict[Tap, Tensor]]:
        """Logits [M, V] of the wanted rows, and tapped hidden states [T, H]."""
        taps = tuple(taps)
        logits, *states = self.compute(taps, batch, self._work(taps))
        return logits, dict(zip(taps, states, strict=True))

    @torch.inference_mode()
    def capture(self, bucket: Bucket, taps: Sequence[Tap] = ()) -> None:
        """Capture forwards of a shape before there is one; nothing where none are captured."""
        if self.graphs is not None:
            taps = tuple(taps)
            self.graphs.capture(Kind(self.owner, taps), bucket, Work(self._work(taps)))

    def _work(self, taps: tuple[Tap, ...]) -> Run:
        """A forward on tensors: logits, then the tapped states."""

        def run(
            ids: Tensor, positions: Tensor, logit_rows: Tensor, plan: Plan, _: Tensor | None
        ) -> Outputs:
            with _Taps(self.model, taps) as tapped:
                output = self.model(
                    input_ids=ids[None],
                    position_ids=positions[None],
                    use_cache=False,
                    logits_to_keep=logit_rows,
                    plan=plan,
                    observer=self.observer,
                )
            logits = output.logits[0]
            if self.padding is not None:
                logits = logits.masked_fill(self.padding, -torch.inf)
            return (logits, *(tapped.states[tap] for tap in taps))

        return run

    def follow(self, batch: PackedBatch, hidden: Tensor | None, fresh: bool) -> None:
        """Take part in a forward of another process."""
        self.forward(batch)

    @torch.inference_mode()
    def unpacked(self, ids: Tensor) -> Tensor:
        """Logits [n, V] of one prompt int64 [n], through transformers' own attention."""
        if self.leader is not None:
            self.leader.unpacked(self.owner, ids)
        self.model.set_attn_implementation("eager")
        try:
            logits: Tensor = self.model(input_ids=ids[None], use_cache=False).logits[0]
        finally:
            self.model.set_attn_implementation(attention_name())
        return logits


class _Taps:
    """Hooks that keep hidden states of one forward; the model writes none of them in place."""

    def __init__(self, model: Any, taps: Sequence[Tap]) -> None:
        self._base = model.base_model
        self._taps = taps
        self._handles: list[Any] = []
        self.states: dict[Tap, Tensor] = {}

    def __enter__(self) -> _Taps:
        for tap in self._taps:
            if tap.side == "final":
                self._handles.append(self._base.norm.register_forward_hook(self._after(tap)))
            elif tap.side == "leaving":
                layer = self._base.layers[tap.layer]
                self._handles.append(layer.register_forward_hook(self._after(tap)))
            else:
                layer = self._base.layers[tap.layer]
                self._handles.append(layer.register_forward_pre_hook(self._before(tap)))
        return self

    def _after(self, tap: Tap) -> Any:
        def hook(module: Any, inputs: Any, output: Any) -> None:
            self.states[tap] = (output[0] if isinstance(output, tuple) else output)[0]

        return hook

    def _before(self, tap: Tap) -> Any:
        def hook(module: Any, inputs: Any) -> None:
            self.states[tap] = inputs[0][0]

        return hook

    def __exit__(self, *_: object) -> None:
        for handle in self._handles:
            handle.remove()
