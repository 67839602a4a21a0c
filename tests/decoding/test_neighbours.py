"""Records of a request do not depend on who shares its batch, be it a chain beside a tree (A10)."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from specbench.core.request import Stops
from specbench.core.trace import Cut, ShortDraft
from specbench.decoding.laws import OneHotLaws
from specbench.decoding.protocols import Draft
from specbench.decoding.tree import ROOT, TrialKind, Trials
from specbench.drafters.none import NoDrafter
from specbench.drafters.tree import token_tree, tree_draft
from specbench.metrics.identities import violations
from specbench.verify.greedy import RULE as GREEDY
from specbench.verify.listed import ListedRule
from specbench.verify.multi_round import RULE as MULTI_ROUND
from specbench.verify.threshold import RULE as THRESHOLD
from specbench.verify.threshold import threshold
from tests.tables import decode, random_table
from tests.toys import request

pytestmark = pytest.mark.usefixtures("one_thread")

V, K, COUNT = 7, 3, 24
TARGET = random_table(31, V)
PRICED = THRESHOLD.configure({"single": 1.0, "acc": 0.7})
ESTIMATED = ListedRule(THRESHOLD.info, threshold).configure({"single": 1.0, "acc": 0.7})
"""The same rule, as if its law were not known."""


class Branching(NoDrafter):
    """Chains for prompts that begin with an even token, trees of two roots for the others."""

    def propose(self, rows, budget):
        tokens, parents = [], []
        for row, room in zip(rows, budget, strict=True):
            last = int(row.tokens[-1])
            line = [(last + 1 + depth) % V for depth in range(room)]
            above = list(range(ROOT, room - 1))
            if row.tokens[0] % 2 and room:
                # A second root and a node behind it, after the path of the first.
                line += [(last + 3) % V, (last + 5) % V][: 2 if room > 1 else 1]
                above += [ROOT, room][: 2 if room > 1 else 1]
            tokens.append(line)
            parents.append(above)
        tree = token_tree(tokens, parents, torch.device("cpu"))
        short = [ShortDraft.NONE] * len(rows)
        return tree_draft(
            tree, None, None, TrialKind.DETERMINISTIC_SET, short, list(map(len, tokens))
        )


def recorded(asked, rule):
    rows = decode(asked, TARGET, lambda pool: Branching(), rule, K)
    for row in rows:
        assert violations(row.trace, k_max=K) == []
    return [(replace(r.trace.steps, tick=[]), r.trace.output_ids, r.trace.evidence) for r in rows]


@pytest.mark.parametrize(
    ("rule", "temperature"),
    [(GREEDY, 0.0), (MULTI_ROUND, 1.0), (PRICED, 1.0), (ESTIMATED, 1.0)],
    ids=["greedy", "multi_round", "priced", "estimated"],
)
def test_a_chain_beside_a_tree_is_recorded_as_alone(rule, temperature):
    asked = [
        request([s, 2], COUNT, item=f"item-{s}", temperature=temperature, seed=s) for s in range(4)
    ]
    alone = [recorded([one], rule)[0] for one in asked]
    assert recorded(asked, rule) == alone
    for number, (steps, _, evidence) in enumerate(alone):
        branching = number % 2 == 1
        assert bool(steps.depth) is branching
        prices = [value is not None for value in evidence.rule_tv]
        if rule is PRICED and not branching:
            assert all(prices[1:])  # of a chain the law is known everywhere
        if rule in (PRICED, ESTIMATED) and branching:
            assert any(prices)
            assert not all(prices)


class Planned(NoDrafter):
    """One tree, the same in every step."""

    def __init__(self, tokens, parents):
        self._tree = [tokens], [parents]

    def propose(self, rows, budget):
        tree = token_tree(*self._tree, torch.device("cpu"))
        nodes = tree.counts
        return tree_draft(tree, None, None, TrialKind.DETERMINISTIC_SET, [ShortDraft.NONE], nodes)


@pytest.mark.parametrize(
    ("end", "judged", "committed"),
    [
        # Nodes by depth: 3, then 4, then 2. All tokens of the path 1 2 3 are accepted.
        (1, 3, 1),
        (2, 7, 2),
        (3, 9, 3),
    ],
)
def test_of_a_cut_tree_the_nodes_down_to_the_cut_were_judged(end, judged, committed):
    tokens = [1, 5, 6, 2, 4, 5, 6, 3, 5]
    parents = [ROOT, ROOT, ROOT, 0, 0, 1, 1, 3, 3]
    counts_up = lambda known: [10.0 * (x == (known[-1] + 1) % V) for x in range(V)]  # noqa: E731
    # The prefill's token is 0, and the step's tokens are 1, 2, 3 and 4.
    asked = request([V - 1], COUNT, stops=Stops((end,)))
    (row,) = decode([asked], counts_up, lambda pool: Planned(tokens, parents), GREEDY, K)
    steps = row.trace.steps
    assert row.trace.output_ids == list(range(end + 1))
    assert (steps.verified, steps.judged, steps.depth) == ([9], [judged], [committed])
    assert (steps.accepted, steps.committed, steps.cut) == ([committed], [committed], [Cut.EOS])
    assert violations(row.trace, k_max=K) == []


class Drawn(Branching):
    """The same drafts as if their tokens had been drawn."""

    def __init__(self, kind):
        self._kind = kind

    def propose(self, rows, budget):
        draft = super().propose(rows, budget)
        trials = replace(draft.trials, kind=self._kind)
        return replace(draft, trials=trials)


@pytest.mark.parametrize(
    "kind", [TrialKind.IID, TrialKind.WITHOUT_REPLACEMENT, TrialKind.INDEPENDENT]
)
@pytest.mark.parametrize("rule", [PRICED, ESTIMATED], ids=["priced", "estimated"])
def test_siblings_that_were_drawn_have_no_price(rule, kind):
    """Given its draft a lossless rule differs from the target too: a price would be made up."""
    asked = request([1, 2], COUNT, temperature=1.0)
    (row,) = decode([asked], TARGET, lambda pool: Drawn(kind), rule, K)
    steps, evidence = row.trace.steps, row.trace.evidence
    done, drafted = 1, 0
    for verified, committed in zip(steps.verified, steps.committed, strict=True):
        if verified:
            drafted += committed
            assert evidence.rule_tv[done : done + committed] == [None] * committed
            assert evidence.rule_kl[done : done + committed] == [None] * committed
        done += committed
    assert drafted > 5


def test_models_that_agree_are_siblings_in_one_line():
    """Two trials of every node of a chain: the tree is a line, and no law is known."""

    class Twice(NoDrafter):
        def propose(self, rows, budget):
            (room,) = budget
            line = [(int(rows[0].tokens[-1]) + 1 + d) % V for d in range(room)]
            tree = token_tree([line], [list(range(ROOT, room - 1))], torch.device("cpu"))
            node = torch.arange(room).repeat_interleave(2)[None]
            trials = Trials(node - 1, node, node, TrialKind.INDEPENDENT)
            short = (ShortDraft.NONE,)
            return Draft(tree, trials, OneHotLaws(), short, (2 * room,))

    (row,) = decode([request([1], COUNT, temperature=1.0)], TARGET, lambda pool: Twice(), PRICED, K)
    steps, evidence = row.trace.steps, row.trace.evidence
    # More nodes were drawn than a chain could have: what is left of them is the path of a tree.
    assert steps.depth == steps.judged
    assert violations(row.trace, k_max=K) == []
    known = [tv is not None for tv in evidence.rule_tv]
    last = steps.committed[-1] if not steps.verified[-1] else 0
    assert known == [False] * (COUNT - last) + [True] * last
