"""Typical acceptance on trees: the longest way of accepted tokens, then the most likely one."""

from __future__ import annotations

import math
import random

import torch

from specbench.core.request import Sampling
from specbench.decoding.laws import OneHotLaws
from specbench.decoding.protocols import BONUS, RECOVERED, Uniforms
from specbench.decoding.rows import TargetRows
from specbench.decoding.tree import PAD, ROOT, TokenTree, TrialKind, Trials
from specbench.verify.typical import RULE

DEFAULT = RULE.configure({})


def judge(rule, ids, parents, lines, temperature=1.0):
    """One request; ``lines`` are the target's rows behind the root and behind every node."""
    count = len(ids)
    tree = TokenTree(torch.tensor([ids]), torch.tensor([parents]), (count,), False)
    trials = Trials(tree.parents, torch.arange(count)[None], tree.parents + 1, TrialKind.ONE_HOT)
    logits = torch.tensor(lines).log()
    rows = TargetRows(logits, torch.arange(count + 1)[None], [Sampling(temperature)] * (count + 1))
    zero = torch.zeros(1, dtype=torch.float64)
    uniforms = Uniforms(zero.expand(1, count), zero, zero, zero.expand(1, count + 1))
    verdict, _ = rule(tree, trials, rows, OneHotLaws(), [None], uniforms)
    path = verdict.path[0].tolist()
    accepted = path[: int(verdict.n_accepted)]
    assert path[len(accepted) :] == [PAD] * (count + 1 - len(accepted))
    return accepted, int(verdict.next_token), int(verdict.kind)


# Entropy 1.0296 nats at this row: the threshold is epsilon = 0.09 (ALGORITHMS 1.9).
WIDE = [0.5, 0.3, 0.2]
SHARP = [0.93, 0.05, 0.02]


def test_a_longer_way_beats_a_more_likely_one():
    # 0 is the likelier child of the root, but its own child 2 fails; 1 has a child that passes.
    found = judge(DEFAULT, [0, 2, 2, 0], [ROOT, ROOT, 0, 1], [WIDE, SHARP, WIDE, WIDE, SHARP])
    assert found == ([1, 3], 0, BONUS)


def test_ways_of_one_length_are_told_apart_by_the_sum_of_their_logarithms():
    # 0.2 * 0.5 against 0.3 * 0.3, then 0.2 * 0.3: sums, not the last token, decide.
    found = judge(DEFAULT, [2, 1, 0, 1], [ROOT, ROOT, 0, 1], [WIDE] * 5)
    assert found[0] == [0, 2]
    found = judge(DEFAULT, [2, 1, 1, 1], [ROOT, ROOT, 0, 1], [WIDE] * 5)
    assert found[0] == [1, 3]
    # Equal ways: the first.
    found = judge(DEFAULT, [1, 1], [ROOT, ROOT], [WIDE, SHARP, WIDE])
    assert found == ([0], 0, BONUS)


def test_nothing_behind_a_rejected_node_counts_and_holes_never_pass():
    found = judge(DEFAULT, [2, 0, 0], [ROOT, 0, 1], [SHARP, WIDE, WIDE, WIDE])
    assert found == ([], 0, RECOVERED)
    for strange in (-1, 3, 77):
        found = judge(DEFAULT, [strange, 0, 1], [ROOT, 0, ROOT], [WIDE] * 4)
        assert found == ([2], 0, BONUS)
        assert judge(DEFAULT, [strange], [ROOT], [WIDE] * 2) == ([], 0, RECOVERED)


def test_the_token_after_is_the_argmax_and_its_kind_says_whether_a_child_failed():
    found = judge(DEFAULT, [1, 2], [ROOT, 0], [WIDE, SHARP, WIDE])
    assert found == ([0], 0, RECOVERED)


def test_temperature_zero_is_exact_matching():
    found = judge(DEFAULT, [1, 0, 2, 0], [ROOT, ROOT, 0, 1], [WIDE] * 5, temperature=0.0)
    assert found == ([1, 3], 0, BONUS)


def slow(epsilon, delta, ids, parents, lines):
    """Every way from the root, one after the other."""
    best = (0, -math.inf, [])
    for end in range(len(ids)):
        way, node = [], end
        while node != ROOT:
            way.insert(0, node)
            node = parents[node]
        count, total, here = 0, 0.0, ROOT
        for node in way:
            row = lines[here + 1]
            entropy = -sum(p * math.log(p + 1e-5) for p in row)
            if not row[ids[node]] > min(epsilon, delta * math.exp(-entropy)):
                break
            count, total, here = count + 1, total + math.log(row[ids[node]]), node
        if (count, total) > best[:2] and count:
            best = (count, total, way[:count])
    return best[2]


def test_random_trees_against_a_walk_over_all_ways():
    rng = random.Random(3)
    rule = RULE.configure({"epsilon": 0.25, "delta": 0.6})
    lengths = set()
    for _ in range(60):
        count = rng.randint(1, 12)
        parents = [rng.randint(ROOT, node - 1) for node in range(count)]
        ids = [rng.randrange(5) for _ in range(count)]
        lines = []
        for _ in range(count + 1):
            weights = [rng.random() ** 2 for _ in range(5)]
            lines.append([w / sum(weights) for w in weights])
        found = judge(rule, ids, parents, lines)[0]
        expected = slow(0.25, 0.6, ids, parents, lines)
        assert [ids[n] for n in found] == [ids[n] for n in expected]
        lengths.add(len(found))
    assert {0, 1, 2, 3} <= lengths
