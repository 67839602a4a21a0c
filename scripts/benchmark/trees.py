"""What trees cost: a tree forward against a chain forward of as many rows, and work on the host."""

from __future__ import annotations

import statistics
import time

import torch

from specbench.core.arm import ArmSpec
from specbench.core.trace import Tick
from specbench.decoding.shapes.best_first import best_first
from specbench.decoding.shapes.expected import Accuracies
from specbench.decoding.tree import TokenTree
from specbench.engines.native import NativeEngine, open_engine
from specbench.models.kv_pool import KVPool
from specbench.models.packed_batch import Segment, pack

from .setting import TARGET, decode_ticks, requests, say, seconds

CONTEXTS = (128, 1024, 4096)
WIDTHS = (8, 16, 32, 64)
FORWARDS = 21
"""Forwards of each kind; the first three warm up."""
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
    """Forward of a tree over that of a chain of as many rows, by context and rows."""
    say("trees against chains")
    model = engine.packed_model
    before = model.pool
    pool = KVPool(1, max(CONTEXTS) + max(WIDTHS), torch.float32, torch.device("cpu"))
    pool.add_owner(model.owner, model.geometry())
    model.use(pool)
    found: dict[str, float] = {}
    for context in CONTEXTS:
        for rows in WIDTHS:
            segments = [Segment(0, context, rows), _tree(context, rows)]
            times: list[list[float]] = [[], []]
            for turn in range(FORWARDS):
                # Whoever comes second finds the keys in the cache: the order alternates.
                for kind in (0, 1) if turn % 2 else (1, 0):
                    batch = pack([segments[kind]], torch.arange(100, 100 + rows), "all")
                    start = time.perf_counter()
                    model.forward(batch)
                    times[kind].append(time.perf_counter() - start)
            chain, tree = (statistics.median(one[3:]) for one in times)
            found[f"{rows} rows behind {context}"] = tree / chain
    model.use(before)
    return found


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
