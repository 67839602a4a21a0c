"""What the parts share: the device, models of random weights, a pool, requests without text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import torch

from specbench.core.request import Limits, Request, RequestKey, Sampling, Stops
from specbench.core.trace import Granularity, Trace
from specbench.decoding.sequence import Sequence as DecodedSequence
from specbench.decoding.stops import StopChecker
from specbench.models.attention.backend import Attention
from specbench.models.attention.paged import PAGE
from specbench.models.attention.sdpa import SDPA
from specbench.models.graphs.captured import Graphs
from specbench.models.graphs.record import CudaRecorder
from specbench.models.heads.configs import MtpConfig, TargetShape
from specbench.models.heads.mtp import MtpHead
from specbench.models.heads.packed import PackedHead
from specbench.models.kv_pool import KVPool
from specbench.models.packed import PackedModel
from specbench.models.pooled import Pooled
from specbench.models.rates import measure
from specbench.models.shapes.read import read_shape
from specbench.roofline.bound import Placed
from specbench.roofline.cost import Precision
from specbench.roofline.devices import BITS

from .sizes import Sizes

CONTEXT = 131_072


def random_model(config: Mapping[str, Any], dtype: torch.dtype, device: torch.device) -> Any:
    """A causal LM of a configuration, made where it runs."""
    from transformers import AutoConfig, AutoModelForCausalLM

    written = {"max_position_embeddings": CONTEXT, **config}
    kind = written.pop("model_type")
    torch.manual_seed(0)
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **written), dtype=dtype)
    return model.eval().requires_grad_(False)


@dataclass
class Stage:
    """One check on one device.

    Attributes:
        sizes: what is measured.
        device: where.
        left: seconds that the part that runs may still take.
    """

    sizes: Sizes
    device: torch.device
    left: Callable[[], float] = lambda: 60.0

    @property
    def dtype(self) -> torch.dtype:
        """Of weights and KV."""
        found: torch.dtype = getattr(torch, self.sizes.dtype)
        return found

    @cached_property
    def target(self) -> Any:
        """The target's network."""
        return random_model(self.sizes.target, self.dtype, self.device)

    @cached_property
    def draft(self) -> Any:
        """The draft's network."""
        return random_model(self.sizes.draft, self.dtype, self.device)

    @cached_property
    def placed(self) -> Placed:
        """The target on this device as it was measured."""
        bits = float(BITS[self.sizes.dtype])
        precision = Precision(self.sizes.dtype, bits, bits, bits)
        rates = measure(self.device, (self.sizes.dtype,), self.sizes.read_seconds)
        return Placed(read_shape(self.sizes.target, "target"), precision, rates)

    def graphs(self) -> Graphs | None:
        """Captures, where the device has them."""
        return Graphs(CudaRecorder(self.device)) if self.device.type == "cuda" else None

    def packed(
        self, graphs: Graphs | None = None, attention: Attention = SDPA, network: Any = None
    ) -> PackedModel:
        """The target, or another network, as one packed forward."""
        owner = "target" if network is None else "draft"
        return PackedModel(network or self.target, owner, None, attention, graphs)

    def mtp_head(self, graphs: Graphs | None = None, attention: Attention = SDPA) -> PackedHead:
        """A multi-token prediction layer of the target's kind with random weights."""
        shape = TargetShape.of(self.target.config)
        config = MtpConfig("deepseek", 1, "embedding_first", "pre_norm", True, shape)
        lender: Any = SimpleNamespace(model=self.target, device=self.device)
        with torch.device(self.device):
            head = MtpHead(config, lender, frozenset(), "random")
        head.to(self.device, self.dtype).eval().requires_grad_(False)
        head.dtype, head.device, head.weight_bytes = self.dtype, self.device, 0
        return PackedHead(head, "head", shape.vocabulary, None, attention, graphs)

    def pool(self, owners: Sequence[Pooled], slabs: int, rows: int) -> KVPool:
        """A pool that all of them use, with KV of random numbers."""
        capacity = -(-rows // PAGE) * PAGE
        pool = KVPool(slabs, capacity, self.dtype, self.device, scratch=True)
        for owner in owners:
            pool.add_owner(owner.owner, owner.geometry())
            owner.use(pool)
            for layer in range(len(owner.geometry())):
                for part in pool.layer(owner.owner, layer):
                    part.normal_(std=0.1)
        return pool

    def requests(
        self, pool: KVPool, count: int, tokens: int, temperature: float
    ) -> list[DecodedSequence]:
        """Requests of random prompts that nothing stops before ``tokens``."""
        random = torch.Generator().manual_seed(1)
        found = []
        for number in range(count):
            prompt = torch.randint(
                10, self.sizes.target["vocab_size"], (self.sizes.context,), generator=random
            ).tolist()
            request = Request(
                RequestKey("random", str(number), 0, temperature, 0),
                tuple(prompt),
                Sampling(temperature),
                Limits(tokens),
                Stops(),
                number,
            )
            trace = Trace(
                request.key, "arm", count, "", Granularity.STEP, number, len(prompt), "", 0
            )
            stops = StopChecker(request.stops, request.limits, len(prompt), None)
            found.append(DecodedSequence(request, pool.admit(pool.capacity), trace, stops))
        return found
