"""The end of a step on the host: keep what was accepted, stop where the output ends, count."""

from __future__ import annotations

from collections.abc import Sequence

from specbench.core.trace import Cut, Finish, ShortDraft
from specbench.decoding.protocols import Acceptance, Draft, Target
from specbench.decoding.sequence import Sequence as DecodedSequence

Committed = tuple[list[int], list[int]]
"""Tokens kept in one step, and the verified position (0 = root, 1 + node) before each."""


def commit_step(
    rows: Sequence[DecodedSequence],
    draft: Draft,
    acceptance: Acceptance,
    target: Target,
    k: int,
    tick: int,
    now: int,
) -> list[Committed]:
    """Read the verdict on the host, keep the accepted tokens up to the first stop, and count.

    Args:
        k: configured draft length, to tell short drafts.
        tick: index of the tick this step belongs to.
        now: when the tokens became known, in nanoseconds.
    """
    counts = acceptance.n_accepted.tolist()
    paths = [path[:n] for path, n in zip(acceptance.path.tolist(), counts, strict=True)]
    ids = draft.tree.ids.tolist()
    following = acceptance.next_token.tolist()
    target.commit(rows, draft.tree, paths)
    emitted = []
    for b, row in enumerate(rows):
        tokens = [ids[b][node] for node in paths[b]] + [following[b]]
        kept = 0
        for token in tokens:
            kept += 1
            if row.append(token) is not None:
                break
        emitted.append((tokens[:kept], [0, *(1 + node for node in paths[b])][:kept]))
        _count(row, draft, b, counts[b], kept, k, tick)
        arrive(row, now, kept)
        row.step += 1
    return emitted


def _count(
    row: DecodedSequence,
    draft: Draft,
    b: int,
    accepted: int,
    committed: int,
    k: int,
    tick: int,
) -> None:
    """Append one step: what was proposed, verified, judged, accepted, committed (METRICS)."""
    tree = draft.tree
    verified, depth = tree.counts[b], tree.deepest[b]
    cut = committed < accepted + 1
    short = draft.short[b] if k else ShortDraft.OFF
    if short is ShortDraft.NONE and depth < k:
        short = ShortDraft.LIMIT
    steps = row.trace.steps
    steps.tick.append(tick)
    steps.proposed.append(draft.proposed[b])
    steps.verified.append(verified)
    # Drafts behind a stop were never judged: neither accepted nor rejected.
    steps.judged.append(tree.nodes_within(b, committed) if cut else verified)
    if steps.depth or not tree.lines[b] or draft.proposed[b] > k:
        # From the first tree on, be it one of which a single path was left; before it were chains.
        steps.depth += steps.judged[len(steps.depth) : -1]
        steps.depth.append(committed if cut else depth)
    steps.accepted.append(min(accepted, committed))
    steps.committed.append(committed)
    steps.cut.append(Cut(row.finish.value) if cut and row.finish else Cut.NONE)
    steps.short_draft.append(short)


def arrive(row: DecodedSequence, now: int, tokens: int) -> None:
    """Note that tokens became known to the caller, and why the output ended, if it did."""
    row.trace.arrivals.t_ns.append(now)
    row.trace.arrivals.tokens.append(tokens)
    if row.finish is not None:
        row.trace.finish = Finish(row.finish)
