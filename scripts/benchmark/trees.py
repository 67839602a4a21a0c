"""What trees cost: a tree forward against a chain forward of as many rows, and work on the host."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import product

import torch

from specbench.core.arm import ArmSpec
from specbench.core.trace import Tick
from specbench.decoding.shapes.best_first import best_first
from specbench.decoding.shapes.expected import Accuracies
from specbench.decoding.tree import TokenTree
from specbench.engines.native import NativeEngine, open_engine
from specbench.models.kv_pool import KVPool
from specbench.models.packed import PackedModel
from specbench.models.packed_batch import Segment, pack

from .setting import TARGET, decode_ticks, requests, say, seconds

CONTEXTS = (128, 1024, 4096)
WIDTHS = (8, 16, 32, 64)
FORWARDS, WARM_UP = 21, 3
ACCURACIES = Accuracies.of([0.6, 0.15, 0.08, 0.05, 0.03, 0.02])
"""What the shapes are made for: wide at the root, ten deep along the first choices."""
DEPTH = 10

ACCEPT_ARMS = [
    ArmSpec("plain"),
    # The target drafts for itself: whole paths are accepted, and gathered.
    ArmSpec(
        "agreeing",
        "draft_model",
        4,
        "multi_round",
        drafter_options={"model": TARGET["model"], "tree": "medusa_63"},
    ),
    # An untrained head: ten candidates are tried at the root, and all fail.
    ArmSpec("refused", "eagle2", 6, "multi_round", drafter_options={"model": "untrained"}),
    ArmSpec("refused, traversal", "eagle2", 6, "traversal", drafter_options={"model": "untrained"}),
]
BATCHES = (1, 8)
DRAFTING = ("draft", "refill")
HOST = ("accept", "commit")


def tree_over_chain(engine: NativeEngine) -> dict[str, float]:
    """Forward of a tree over that of a chain of as many rows, by rows and context."""
    say("trees against chains")
    found: dict[str, float] = {}
    with _deep_pool(engine.packed_model) as model:
        for context, rows in product(CONTEXTS, WIDTHS):
            segments = [Segment(0, context, rows), _tree(context, rows)]
            chain, tree = _forward_times(model, segments)
            found[f"{rows} rows behind {context}"] = tree / chain
    return found


def chain_cost(engine: NativeEngine) -> dict[str, float]:
    """v(n): forward of n rows over forward of 1 row, by rows and context."""
    say("verify cost by context")
    found: dict[str, float] = {}
    with _deep_pool(engine.packed_model) as model:
        for context in CONTEXTS:
            segments = [Segment(0, context, rows) for rows in (1, *WIDTHS)]
            one, *wider = _forward_times(model, segments)
            for rows, time_of in zip(WIDTHS, wider, strict=True):
                found[f"{rows} rows behind {context}"] = time_of / one
    return found


@contextmanager
def _deep_pool(model: PackedModel) -> Iterator[PackedModel]:
    """The model with room for the longest context, and with its own pool again afterwards."""
    before = model.pool
    pool = KVPool(1, max(CONTEXTS) + max(WIDTHS), torch.float32, torch.device("cpu"))
    pool.add_owner(model.owner, model.geometry())
    model.use(pool)
    yield model
    model.use(before)


def _forward_times(model: PackedModel, segments: Sequence[Segment]) -> list[float]:
    """Median seconds of a forward of each segment."""
    times: list[list[float]] = [[] for _ in segments]
    for turn in range(FORWARDS):
        kinds = range(len(segments))
        # Whoever comes second finds the keys in the cache: the order alternates.
        for kind in kinds if turn % 2 else reversed(kinds):
            segment = segments[kind]
            batch = pack([segment], torch.arange(100, 100 + segment.count), "all")
            start = time.perf_counter()
            model.forward(batch)
            times[kind].append(time.perf_counter() - start)
    return [statistics.median(one[WARM_UP:]) for one in times]


def _tree(context: int, rows: int) -> Segment:
    """A root with ``rows - 1`` nodes below it."""
    shape = best_first(ACCURACIES, rows - 1, DEPTH)
    parents = torch.tensor([[-1, *(parent + 1 for parent in shape.parents)]])
    tree = TokenTree(torch.zeros_like(parents), parents, (rows,), False)
    return Segment(0, context, rows, tree.ancestors()[0], tree.depths()[0] - 1)


def accept_shares(engine: NativeEngine) -> dict[str, float]:
    """Acceptance, gathering of KV and commit over a step, which is counted without its drafting.

    Trees of 63 and 59 nodes; the median over steps.
    """
    say("acceptance of trees")
    own = open_engine(TARGET, ACCEPT_ARMS)
    found = {}
    for arm in ACCEPT_ARMS[1:]:
        for temperature in (0.0, 1.0):
            asked = requests(own, ("code", "chat"), 4, 24, temperature)
            for batch in BATCHES:
                ticks = decode_ticks(own, arm.name, asked[: max(batch, 2)], batch)
                name = f"{arm.name}, T={temperature:g}, batch {batch}"
                found[name] = statistics.median(map(_host_share, ticks))
    own.close()
    return found


def _host_share(tick: Tick) -> float:
    return seconds(tick, HOST) / (seconds(tick) - seconds(tick, DRAFTING))
