"""Refuse, at load, models whose packed forward would be wrong; tolerance comes from measuring."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from specbench.decoding.protocols import Tap
from specbench.decoding.tree import TokenTree
from specbench.errors import PrerequisiteError
from specbench.models.attention.paged import PAGE
from specbench.models.kv_pool import KVPool
from specbench.models.packed import PackedModel
from specbench.models.packed_batch import PackedBatch, Segment, pack

SERVER_HINT = (
    "run it on a serving engine that supports it and attach specbench to the server, "
    "e.g. `vllm serve {model}`"
)
HARMLESS_KEYWORDS = {"dropout", "position_ids", "is_causal", "use_cache"}
_LENGTH_DEPENDENT_ROPE = {"dynamic", "longrope"}
_TOLERANCE = {torch.float32: 2e-3, torch.float16: 5e-2, torch.bfloat16: 2e-1}
"""Largest relative logit difference of packed and separate forwards that passes as rounding."""
_SPARE = 64
"""KV rows for the prompts of the check and what follows them."""
_COMPARED = 32
"""Rows that are also run one at a time, at most: how many run together is what matters."""


@dataclass(frozen=True, slots=True)
class SelfCheck:
    """What the check measured.

    Attributes:
        packed_error: largest logit difference between one packed call and separate reference
            forwards (two prompts, then a chain and a tree, then more nodes of the tree), in logits.
        verify_error: largest logit difference between one row and ``width`` rows on the same
            tokens; greedy ties are judged against twice this.
        attention_calls: attention calls per layer and forward.
        width: rows of the widest forward after a prompt: the last token and all nodes of a draft.
    """

    packed_error: float
    verify_error: float
    attention_calls: int
    width: int


def refuse_configuration(config: Any, name: str, hint: str = SERVER_HINT) -> None:
    """Raise PrerequisiteError, with ``hint``, for models that no packed forward can run."""
    text = config.get_text_config()
    kinds = set(getattr(text, "layer_types", None) or ())
    foreign = sorted(k for k in kinds if k not in ("full_attention", "sliding_attention"))
    if foreign:
        raise PrerequisiteError(
            f"{name}: layers of type {', '.join(foreign)} keep a state or a window that the native "
            "engine cannot roll back after a rejected draft",
            hint.format(model=name),
        )
    rope = getattr(text, "rope_parameters", None) or {}
    nested = [rope, *[v for v in rope.values() if isinstance(v, dict)]]
    for parameters in nested:
        if parameters.get("rope_type") in _LENGTH_DEPENDENT_ROPE:
            raise PrerequisiteError(
                f"{name}: RoPE of type {parameters['rope_type']!r} depends on the longest row of "
                "the batch, so a request's output would depend on its neighbours",
                hint.format(model=name),
            )


def check(model: PackedModel, name: str, width: int, hint: str = SERVER_HINT) -> SelfCheck:
    """Compare packed forwards with separate ones.

    Args:
        model: the packed model, its pool not yet in use.
        name: for messages.
        width: rows of the widest forward after a prompt, see ``SelfCheck``.
        hint: what to do with a model that is refused; its name is put in for ``{model}``.

    Raises:
        PrerequisiteError: an unknown attention keyword, layers that bypass the attention
            interface, or logits that differ.
    """
    first, second = _prompts(model)
    _use_pool(model, _SPARE)
    with _Spy(model) as spy:
        error = _packed_error(spy, first, second)
    spy.judge(name, hint)
    if not error <= _tolerance(model, model.unpacked(first)):
        raise PrerequisiteError(
            f"{name}: a packed forward differs from separate ones by {error:.3g} logits",
            hint.format(model=name),
        )
    return SelfCheck(error, verify_error(model, name, width, hint), spy.per_layer, width)


def verify_error(model: PackedModel, name: str, width: int, hint: str = SERVER_HINT) -> float:
    """Largest logit difference between rows one at a time and the same among ``width`` at once.

    Args:
        model: the packed model, its pool not yet in use.
        name: for messages.
        width: rows of the widest forward after a prompt.
        hint: as in ``check``.

    Raises:
        PrerequisiteError: more than rounding.
    """
    prompt, _ = _prompts(model)
    _use_pool(model, _SPARE + width)
    tokens = prompt.repeat(1 + width // len(prompt))[:width]
    model.forward(pack([Segment(0, 0, len(prompt))], prompt, "none"))
    together, _ = model.forward(pack([Segment(0, len(prompt), width)], tokens, "all"))
    single = [
        model.forward(pack([Segment(0, len(prompt) + i, 1)], tokens[i : i + 1], "all"))[0]
        for i in range(min(width, _COMPARED))
    ]
    alone = torch.cat(single)
    error = _distance(model, together[: len(alone)], alone)
    if not error <= _tolerance(model, alone):
        raise PrerequisiteError(
            f"{name}: {width} rows at once differ from one at a time by {error:.3g} logits",
            hint.format(model=name),
        )
    return error


def _prompts(model: PackedModel) -> tuple[Tensor, Tensor]:
    """Two prompts int64 [n], where the model is."""
    vocabulary = model.model.get_input_embeddings().num_embeddings
    generator = torch.Generator().manual_seed(0)
    device = next(model.model.parameters()).device
    first, second = (torch.randint(vocabulary, (n,), generator=generator) for n in (11, 7))
    return first.to(device), second.to(device)


def _use_pool(model: PackedModel, rows: int) -> None:
    """Give the model KV of its own for a while."""
    weights = next(model.model.parameters())
    pool = KVPool(2, -(-rows // PAGE) * PAGE, weights.dtype, weights.device)
    pool.add_owner(model.owner, model.geometry())
    model.use(pool)


def _tolerance(model: PackedModel, logits: Tensor) -> float:
    """Largest difference that passes as rounding, at logits of this size."""
    sizes = logits.abs()
    largest = float(sizes[sizes.isfinite()].max())
    return _TOLERANCE[next(model.model.parameters()).dtype] * max(1.0, largest)


def _packed_error(spy: _Spy, first: Tensor, second: Tensor) -> float:
    model = spy.model
    reference = model.unpacked
    pool = model.pool
    segments = [Segment(0, 0, len(first)), Segment(1, 0, len(second))]
    logits, _ = spy.forward(pack(segments, torch.cat([first, second]), "all"))
    expected = torch.cat([reference(first), reference(second)])
    worst = _distance(model, logits, expected)
    pool.set_length(model.owner, 0, len(first))
    pool.set_length(model.owner, 1, len(second))
    # A tree 0 -> {1, 2}, 2 -> 3 behind the first prompt, a chain behind the second; then, as drafts
    # grow, 1 -> 4 and 3 -> 5 alone: the rows that they see begin in the forward before.
    ids = torch.tensor([[3, 5, 7, 9, 4, 8]], device=first.device)
    parents = torch.tensor([[-1, 0, 0, 2, 1, 3]], device=first.device)
    paths = [[3], [3, 5], [3, 7], [3, 7, 9], [3, 5, 4], [3, 7, 9, 8]]
    seen = TokenTree(ids, parents, (6,), False).ancestors()[0]
    depths = torch.tensor([len(path) - 1 for path in paths])
    segments = [
        Segment(0, len(first), 4, seen[:4, :4], depths[:4]),
        Segment(1, len(second), 3),
    ]
    chain = torch.tensor([4, 6, 8], device=first.device)
    logits, _ = spy.forward(pack(segments, torch.cat([ids[0, :4], chain]), "all"))
    after = Segment(0, len(first) + 4, 2, seen[4:], depths)
    grown, _ = spy.forward(pack([after], ids[0, 4:], "all"))
    for row, path in zip(torch.cat([logits[:4], grown]), paths, strict=True):
        tail = torch.tensor(path, device=first.device)
        alone = reference(torch.cat([first, tail]))[-1]
        worst = max(worst, _distance(model, row, alone))
    alone = reference(torch.cat([second, chain]))[-3:]
    return max(worst, _distance(model, logits[4:], alone))


def _distance(model: PackedModel, logits: Tensor, expected: Tensor) -> float:
    """Largest difference; rows without a token are -inf on our side and do not count."""
    difference = (logits - expected).abs()
    if model.padding is not None:
        difference = difference[..., ~model.padding]
    return float(difference.max())


class _Spy:
    """Counts forwards and their attention calls by layer, and collects keyword names."""

    def __init__(self, model: PackedModel) -> None:
        self.model = model
        self._forwards = 0
        self._calls: dict[int, int] = {}
        self._unknown: set[str] = set()
        self.per_layer = 0

    def __enter__(self) -> _Spy:
        self.model.observer = self._see
        return self

    def forward(self, batch: PackedBatch) -> tuple[Tensor, dict[Tap, Tensor]]:
        """A forward of the model."""
        self._forwards += 1
        return self.model.forward(batch)

    def _see(self, layer: int, keywords: dict[str, Any]) -> None:
        self._calls[layer] = self._calls.get(layer, 0) + 1
        self._unknown |= {
            k for k, v in keywords.items() if k not in HARMLESS_KEYWORDS and v is not None
        }

    def __exit__(self, *_: object) -> None:
        self.model.observer = None

    def judge(self, name: str, hint: str) -> None:
        """Raise PrerequisiteError where attention was bypassed or took unknown arguments."""
        layers = self.model.model.config.get_text_config().num_hidden_layers
        counts = set(self._calls.values())
        if len(self._calls) != layers or len(counts) != 1:
            raise PrerequisiteError(
                f"{name}: {len(self._calls)} of {layers} layers go through the attention interface",
                hint.format(model=name),
            )
        if self._unknown:
            raise PrerequisiteError(
                f"{name}: its attention takes {', '.join(sorted(self._unknown))}, which the native "
                "engine does not implement",
                hint.format(model=name),
            )
        self.per_layer = counts.pop() // self._forwards
