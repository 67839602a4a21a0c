"""What rules for trees do with batches: chains, temperature 0, neighbours, and what they read."""

from __future__ import annotations

from dataclasses import fields

import pytest
import torch

from specbench.core.request import Sampling
from specbench.decoding.laws import DenseLaws, OneHotLaws
from specbench.decoding.protocols import BONUS, RECOVERED, Uniforms
from specbench.decoding.rows import TargetRows
from specbench.decoding.tree import PAD, ROOT, TokenTree, TrialKind, Trials, chain, chain_trials
from specbench.verify.argmax import follow
from specbench.verify.block import RULE as BLOCK
from specbench.verify.k_seq import RULE
from specbench.verify.multi_round import RULE as MULTI_ROUND
from specbench.verify.rejection import RULE as REJECTION
from specbench.verify.threshold import RULE as THRESHOLD_RULE
from specbench.verify.traversal import RULE as TRAVERSAL
from specbench.verify.typical import RULE as TYPICAL_RULE

K_SEQ, THRESHOLD, TYPICAL = (rule.configure({}) for rule in (RULE, THRESHOLD_RULE, TYPICAL_RULE))
EXACT = [MULTI_ROUND, TRAVERSAL, K_SEQ]
V = 6


def random_rows(generator, count, size=V):
    return torch.softmax(2 * torch.randn(count, size, generator=generator), 1)


def numbers(generator, batch, trials, nodes):
    double = {"generator": generator, "dtype": torch.float64}
    return Uniforms(
        torch.rand(batch, trials, **double),
        torch.rand(batch, **double),
        torch.rand(batch, **double),
        torch.rand(batch, nodes + 1, **double),
    )


def random_tree(generator, parents, kind):
    """One request: tree, trials, logits [N + 1, V] and law rows; siblings have other tokens."""
    count = len(parents)
    ids = []
    for node, parent in enumerate(parents):
        rank = sum(other == parent for other in parents[:node])
        order = torch.randperm(V, generator=torch.Generator().manual_seed(10 * parent + 50))
        ids.append(int(order[rank]))
    tree = TokenTree(torch.tensor([ids]), torch.tensor([parents]), (count,), False)
    node = torch.arange(count)[None]
    trials = Trials(tree.parents, node, tree.parents + 1, kind)
    logits = 2 * torch.randn(count + 1, V, generator=generator)
    return tree, trials, logits, random_rows(generator, count + 1)


def joined(parts, temperatures):
    """One batch of single trees of any size, in order."""
    width = max(part[0].width for part in parts)
    most = width + 1

    def wide(line, value):
        return torch.cat([line[0], torch.full((width - line.shape[1],), value)])

    tree = TokenTree(
        torch.stack([wide(part[0].ids, PAD) for part in parts]),
        torch.stack([wide(part[0].parents, ROOT) for part in parts]),
        tuple(part[0].counts[0] for part in parts),
        False,
    )
    trials = Trials(
        torch.stack([wide(part[1].parent, ROOT) for part in parts]),
        torch.stack([wide(part[1].node, PAD) for part in parts]),
        torch.stack([wide(part[1].law, 0) for part in parts]),
        parts[0][1].kind,
    )
    index, start, sampling = [], 0, []
    for part, temperature in zip(parts, temperatures, strict=True):
        own = len(part[2])
        index.append([start + i if i < own else start for i in range(most)])
        start += own
        sampling += [Sampling(temperature)] * own
    rows = TargetRows(torch.cat([part[2] for part in parts]), torch.tensor(index), sampling)
    laws = torch.stack(
        [torch.cat([part[3], part[3][:1].expand(most - len(part[3]), -1)]) for part in parts]
    )
    return tree, trials, rows, DenseLaws(laws)


SHAPES = [
    (ROOT, ROOT, ROOT, 0, 0, 1, 3, 3, 3),
    (ROOT,),
    (ROOT, 0, 1, 1, 0),
    (ROOT, ROOT, 0, 1, 2, 3),
]


def batch(seed, kind, temperatures):
    generator = torch.Generator().manual_seed(seed)
    parts = [random_tree(generator, shape, kind) for shape in SHAPES]
    return parts, joined(parts, temperatures), generator


def same(one, other, b, width):
    """Row b of a batch's verdict equals the only row of another."""
    for field in fields(one):
        mine, alone = getattr(one, field.name)[b], getattr(other, field.name)[0]
        if field.name == "path":
            assert mine.tolist() == alone.tolist() + [PAD] * (width - other.path.shape[1] + 1)
        else:
            assert mine == alone


KINDS = {
    MULTI_ROUND: list(TrialKind),
    TRAVERSAL: list(TrialKind),
    K_SEQ: [TrialKind.IID],
    THRESHOLD: [TrialKind.DETERMINISTIC_SET],
    TYPICAL: [TrialKind.DETERMINISTIC_SET],
}
CASES = [(rule, kind) for rule, kinds in KINDS.items() for kind in kinds]


@pytest.mark.parametrize(("rule", "kind"), CASES)
def test_neighbours_of_any_shape_and_temperature_do_not_matter(rule, kind):
    temperatures = [1.0, 0.0, 0.7, 0.0]
    for seed in range(8):
        parts, (tree, trials, rows, laws), generator = batch(seed, kind, temperatures)
        uniforms = numbers(generator, len(parts), tree.width, tree.width)
        together, _ = rule(tree, trials, rows, laws, None, uniforms)
        for b, part in enumerate(parts):
            single = joined([part], temperatures[b : b + 1])
            own = Uniforms(
                *(getattr(uniforms, field.name)[b : b + 1] for field in fields(Uniforms))
            )
            width = part[0].width
            own = Uniforms(own.accept[:, :width], own.residual, own.bonus, own.target)
            same(together, rule(*single, None, own)[0], b, tree.width)


@pytest.mark.parametrize(("rule", "kind"), CASES)
def test_temperature_zero_follows_the_argmax(rule, kind):
    for seed in range(8):
        parts, (tree, trials, rows, laws), generator = batch(seed, kind, [0.0] * 4)
        uniforms = numbers(generator, 4, tree.width, tree.width)
        verdict, _ = rule(tree, trials, rows, laws, None, uniforms)
        expected = follow(tree, rows.argmax())
        for field in fields(expected):
            assert torch.equal(getattr(verdict, field.name), getattr(expected, field.name))
        for b, part in enumerate(parts):
            walk, here = [], ROOT
            best = part[2].argmax(1).tolist()
            while True:
                ids, above = part[0].ids[0].tolist(), part[0].parents[0].tolist()
                matches = [n for n, p in enumerate(above) if p == here and ids[n] == best[here + 1]]
                if not matches:
                    break
                here = matches[0]
                walk.append(here)
            assert verdict.path[b, : verdict.n_accepted[b]].tolist() == walk
            assert verdict.next_token[b] == best[here + 1]


@pytest.mark.parametrize(("rule", "kind"), CASES)
def test_no_argument_is_changed(rule, kind):
    for seed in range(3):
        _, (tree, trials, rows, laws), generator = batch(seed, kind, [1.0, 0.0, 1.0, 0.5])
        uniforms = numbers(generator, 4, tree.width, tree.width)
        kept = [
            tree.ids, tree.parents, trials.parent, trials.node, trials.law, rows.raw, rows.index,
            rows.processed(), rows.tempered(), laws.rows, uniforms.accept, uniforms.residual,
            uniforms.bonus,
        ]  # fmt: skip
        before = [tensor.clone() for tensor in kept]
        rule(tree, trials, rows, laws, None, uniforms)
        assert all(torch.equal(a, b) for a, b in zip(kept, before, strict=True))


def chains(kind, strange):
    """400 chains of four, some with a strange id in the second place."""
    generator = torch.Generator().manual_seed(5)
    draft = random_rows(generator, 400 * 4).view(400, 4, V)
    ids = torch.multinomial(draft.view(-1, V), 1, generator=generator).view(400, 4)
    if strange is not None:
        ids[::3, 1] = strange
    tree = chain(ids, (4,) * 400)
    logits = 2 * torch.randn(400 * 5, V, generator=generator)
    rows = TargetRows(logits, torch.arange(2000).view(400, 5), [Sampling(1.0)] * 2000)
    laws = DenseLaws(draft) if kind is TrialKind.IID else OneHotLaws()
    return tree, chain_trials(tree, kind), rows, laws, None, numbers(generator, 400, 4, 4)


@pytest.mark.parametrize("kind", [TrialKind.IID, TrialKind.ONE_HOT])
@pytest.mark.parametrize("strange", [None, -1, V, 99])
def test_a_chain_is_judged_as_by_the_rules_for_chains(kind, strange):
    case = chains(kind, strange)
    pairs = [(MULTI_ROUND, REJECTION), (K_SEQ, REJECTION)]
    if strange is None:
        pairs.append((TRAVERSAL, BLOCK))
    for rule, known in pairs:
        verdict, expected = rule(*case)[0], known(*case)[0]
        for field in fields(expected):
            assert torch.equal(getattr(verdict, field.name), getattr(expected, field.name))
        assert {0, 1, 2, 3} <= set(verdict.n_accepted.tolist())


class CountingLaws(DenseLaws):
    """Counts the rows of vocabulary size that are asked for."""

    def __init__(self, rows):
        super().__init__(rows)
        self.asked = 0

    def whole(self, owner, row, drafted, like):
        self.asked += len(row)
        return super().whole(owner, row, drafted, like)


def wide_tree(kind):
    """Sixty nodes: three children per node, three levels and more; accept numbers are given."""
    parents = [ROOT] * 3 + [(node - 3) // 3 for node in range(3, 60)]
    generator = torch.Generator().manual_seed(2)
    ids = torch.tensor([[node % 3 for node in range(60)]])
    tree = TokenTree(ids, torch.tensor([parents]), (60,), False)
    trials = Trials(tree.parents, torch.arange(60)[None], tree.parents + 1, kind)
    logits = torch.randn(61, V, generator=generator)
    rows = TargetRows(logits, torch.arange(61)[None], [Sampling(1.0)] * 61)
    return tree, trials, rows, CountingLaws(random_rows(generator, 61)[None])


def judged(rule, kind, accept):
    tree, trials, rows, laws = wide_tree(kind)
    last = torch.full((1,), 0.5, dtype=torch.float64)
    uniforms = Uniforms(accept, last, last, torch.zeros(1, 61, dtype=torch.float64))
    verdict, _ = rule(tree, trials, rows, laws, None, uniforms)
    return verdict, laws.asked


def test_rows_are_read_only_for_candidates_that_failed():
    zeros = torch.zeros(1, 60, dtype=torch.float64)
    ones = torch.full((1, 60), 1 - 2**-40, dtype=torch.float64)
    for rule in (MULTI_ROUND, TRAVERSAL):
        for kind in TrialKind:
            verdict, asked = judged(rule, kind, zeros)
            assert (verdict.n_accepted, asked) == (4, 0)
    most = {
        TrialKind.IID: 3,
        TrialKind.INDEPENDENT: 3,
        TrialKind.WITHOUT_REPLACEMENT: 6,
    }
    for kind in TrialKind:
        verdict, asked = judged(MULTI_ROUND, kind, ones)
        assert asked <= most.get(kind, 0)
    # One row per node that was reached and has several candidates.
    verdict, asked = judged(K_SEQ, TrialKind.IID, zeros)
    assert asked <= verdict.n_accepted + 1
    verdict, asked = judged(K_SEQ, TrialKind.IID, ones)
    assert asked <= 2 * (verdict.n_accepted + 1)


@pytest.mark.parametrize("rule", [MULTI_ROUND, TRAVERSAL, THRESHOLD])
def test_a_token_of_target_probability_zero_is_never_accepted_at_u_zero(rule):
    tree = TokenTree(torch.tensor([[1, 2]]), torch.tensor([[ROOT, ROOT]]), (2,), False)
    trials = Trials(
        tree.parents, torch.tensor([[0, 1]]), tree.parents + 1, TrialKind.DETERMINISTIC_SET
    )
    logits = torch.tensor([[0.0, -torch.inf, -torch.inf], [0.0, 0, 0], [0.0, 0, 0]])
    rows = TargetRows(logits, torch.tensor([[0, 1, 2]]), [Sampling(1.0)] * 3)
    zero = torch.zeros(1, dtype=torch.float64)
    uniforms = Uniforms(zero[:, None].expand(1, 2), zero, zero, zero[:, None].expand(1, 3))
    verdict, _ = rule(tree, trials, rows, OneHotLaws(), None, uniforms)
    assert (verdict.n_accepted, verdict.next_token, verdict.kind) == (0, 0, RECOVERED)


@pytest.mark.parametrize("rule", [*EXACT, THRESHOLD, TYPICAL])
def test_a_request_without_a_draft_gets_its_bonus_from_the_target(rule):
    logits = torch.tensor([[0.0, 1.0, 2.0], [5.0, 0.0, 0.0], [0.0, 0.0, 5.0]])
    empty = torch.full((2, 1), PAD)
    tree = TokenTree(torch.tensor([[PAD], [2]]), torch.tensor([[ROOT], [ROOT]]), (0, 1), False)
    trials = Trials(
        torch.tensor([[ROOT], [ROOT]]), torch.tensor([[PAD], [0]]), empty, TrialKind.IID
    )
    rows = TargetRows(logits, torch.tensor([[0, 0], [1, 2]]), [Sampling(1.0)] * 3)
    laws = DenseLaws(torch.tensor([[[0.2, 0.3, 0.5]], [[0.0, 0.0, 1.0]]]))
    half = torch.full((2,), 0.5, dtype=torch.float64)
    uniforms = Uniforms(half[:, None], half, half, half[:, None].expand(2, 2))
    verdict, _ = rule(tree, trials, rows, laws, None, uniforms)
    assert (verdict.n_accepted[0], verdict.next_token[0], verdict.kind[0]) == (0, 2, BONUS)
    assert verdict.path.shape == (2, 2)
