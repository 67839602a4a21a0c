"""Steps of a batch with different trees: what is committed is what a fresh prefill would hold."""

from __future__ import annotations

import random
from collections import Counter

import pytest
import torch

from specbench.core.trace import ShortDraft
from specbench.decoding.laws import OneHotLaws
from specbench.decoding.protocols import Draft
from specbench.decoding.tree import PAD, ROOT, TokenTree, TrialKind, Trials
from specbench.drafters.none import NoDrafter
from specbench.metrics.identities import violations
from specbench.models.attention import sight
from specbench.verify.greedy import RULE as GREEDY
from specbench.verify.multi_round import RULE as MULTI_ROUND
from specbench.verify.target_match import RULE as TARGET_MATCH
from specbench.verify.traversal import RULE as TRAVERSAL
from tests.drafters.packed_loops import asked, decode_packed
from tests.models.families import VOCABULARY, build, reference
from tests.oracle import from_outputs

pytestmark = pytest.mark.usefixtures("one_thread")

K, NODES, COUNT = 3, 8, 60


class RandomTrees(NoDrafter):
    """Trees of random shape that hold the right tokens down to a random depth, at random ranks."""

    def __init__(self, continuation, seed=0):
        self._continuation = continuation
        self._chance = random.Random(seed)

    def room(self, k):
        return NODES

    def propose(self, rows, budget):
        trees = [self._tree(row, max(room, 0)) for row, room in zip(rows, budget, strict=True)]
        width = max(len(ids) for ids, _ in trees)
        ids = torch.tensor([line + [PAD] * (width - len(line)) for line, _ in trees]).long()
        parents = torch.tensor([line + [ROOT] * (width - len(line)) for _, line in trees]).long()
        counts = tuple(len(line) for line, _ in trees)
        node = torch.arange(width).expand_as(ids)
        trials = Trials(
            parents, torch.where(ids >= 0, node, PAD), node, TrialKind.DETERMINISTIC_SET
        )
        tree = TokenTree(ids, parents, counts, False)
        return Draft(tree, trials, OneHotLaws(), (ShortDraft.NONE,) * len(rows), counts)

    def _tree(self, row, room):
        """Ids and parents: a path of right tokens, and wrong ones wherever there is room."""
        chance = self._chance
        right = list(self._continuation(row, room))[: chance.randint(0, room)]
        ids, parents, depths, good = [], [], [], [ROOT]
        for _ in range(NODES if room else 0):
            parent = chance.choice([n for n in range(ROOT, len(ids)) if n < 0 or depths[n] < room])
            depth = 1 if parent == ROOT else depths[parent] + 1
            siblings = [i for i, p in zip(ids, parents, strict=True) if p == parent]
            wanted = right[depth - 1] if parent == good[-1] and depth <= len(right) else None
            behind = self._continuation(row, depth)[depth - 1 :] if parent in good else []
            if wanted is not None and chance.random() < 0.5:
                good.append(len(ids))
                ids.append(wanted)
            else:
                ids.append(self._wrong({*siblings, *behind}))
            parents.append(parent)
            depths.append(depth)
        return self._completed(ids, parents, good, right)

    def _completed(self, ids, parents, good, right):
        """What the path still lacks, in place of the last nodes that have no children."""
        for token in right[len(good) - 1 :]:
            good.append(len(ids))
            parents.append(good[-2])
            ids.append(token)
        return ids, parents

    def _wrong(self, taken):
        return self._chance.choice([x for x in range(VOCABULARY) if x not in taken])


def plain_outputs(requests):
    rows, _, _ = decode_packed(requests, lambda pool, model: NoDrafter(), TARGET_MATCH, 0)
    return {row.request.key.item: row.trace.output_ids for row in rows}


def argmax_continuation():
    logits = reference(build("llama"))

    def continuation(row, count):
        ids = row.tokens.tolist()
        for _ in range(count):
            ids.append(int(logits(ids)[-1].argmax()))
        return ids[row.length :]

    return continuation


def check(rows, target):
    lengths = Counter()
    for row in rows:
        assert violations(row.trace, k_max=K) == []
        steps = row.trace.steps
        lengths.update(a for a, d in zip(steps.accepted, steps.depths, strict=True) if d == K)
    assert target.checks == sum(len(row.trace.steps) for row in rows)
    return lengths


@pytest.mark.parametrize("split_from", [0, 10**9], ids=["prefix apart", "all at once"])
@pytest.mark.parametrize(
    ("rule", "temperature"),
    [
        *((rule, 0.0) for rule in (GREEDY, MULTI_ROUND, TRAVERSAL, TARGET_MATCH)),
        (TARGET_MATCH, 0.8),
    ],
)
def test_output_equals_plain_whatever_the_trees(monkeypatch, rule, temperature, split_from):
    monkeypatch.setattr(sight, "SPLIT_FROM", split_from)
    requests = asked(COUNT, temperature)
    plain = plain_outputs(requests)
    drafter = RandomTrees(from_outputs(plain))
    rows, target, _ = decode_packed(requests, lambda *_: drafter, rule.configure({}), K, check=True)
    assert {row.request.key.item: row.trace.output_ids for row in rows} == plain
    lengths = check(rows, target)
    assert min(lengths[length] for length in range(K + 1)) >= 20, lengths


@pytest.mark.parametrize("rule", [MULTI_ROUND, TRAVERSAL])
def test_sampled_rules_keep_kv_and_counts(rule):
    # Cold enough that right nodes are often accepted, warm enough that they are not always.
    requests = asked(COUNT // 2, 0.3)
    drafter = RandomTrees(argmax_continuation())
    rows, target, _ = decode_packed(requests, lambda *_: drafter, rule.configure({}), K, check=True)
    lengths = check(rows, target)
    assert min(lengths[length] for length in range(K + 1)) >= 3, lengths
