"""Several models that draft for one request: which draws are trials, and with what laws."""

import pytest
import torch

from specbench.decoding.laws import DenseLaws, OneHotLaws
from specbench.decoding.random import Stream, uniforms
from specbench.decoding.sampling import draw
from specbench.decoding.tree import ROOT, TrialKind
from specbench.drafters.multi_draft import INFO, MultiDraftDrafter
from specbench.errors import UsageError
from specbench.verify.multi_round import RULE as MULTI_ROUND
from tests.drafters.build_contexts import context_of
from tests.drafters.packed_loops import asked, decode_packed, own_draft
from tests.drafters.rebuilt import close_to
from tests.models.families import VOCABULARY, build, reference
from tests.tables import TableModel, decode
from tests.toys import request

pytestmark = pytest.mark.usefixtures("one_thread")

K = 3


def models(count):
    return [close_to(build("llama"), seed) for seed in range(count)]


class Watched(MultiDraftDrafter):
    """Keeps rows and draft of every step."""

    def __init__(self, *given):
        super().__init__(*given)
        self.seen = []

    def propose(self, rows, budget):
        draft = super().propose(rows, budget)
        self.seen.append(
            ([(row.tokens.tolist(), row.request.seed, row.step) for row in rows], draft)
        )
        return draft


def watched(pool, weights, sampled=True):
    own = [own_draft(pool, one, f"d{i}") for i, one in enumerate(weights)]
    return Watched(own, VOCABULARY, [96] * len(own), sampled)


def drafted(used):
    """Steps that drafted; the last of a request may not."""
    return [(rows, draft) for rows, draft in used.seen if draft.tree.width]


def test_every_draw_is_a_trial_with_the_law_of_its_model_and_a_number_of_its_own():
    weights = models(2)
    alone = [reference(one) for one in models(2)]
    merged = 0
    _, _, used = decode_packed(
        asked(8, 0.4),
        lambda pool, _: watched(pool, weights),
        MULTI_ROUND,
        K,
    )
    for rows, draft in drafted(used):
        tree, trials = draft.tree, draft.trials
        assert trials.kind is TrialKind.INDEPENDENT
        assert isinstance(draft.laws, DenseLaws)
        for b, (tokens, seed, step) in enumerate(rows):
            expected = []
            for m, logits in enumerate(alone):
                path = []
                for node in range(draft.proposed[b] // 2):
                    law = torch.softmax(logits([*tokens, *path])[-1:] / 0.4, 1)
                    number = uniforms(seed, Stream.DRAFT, step, 2 * node + m)
                    token = int(draw(law, torch.tensor([float(number)], dtype=torch.float64)))
                    expected.append((node, m, tuple(path), token, law[0]))
                    path.append(token)
            expected.sort(key=lambda trial: trial[:2])
            ids, parents = tree.ids[b].tolist(), tree.parents[b].tolist()
            paths = {ROOT: ()}
            for node in range(tree.counts[b]):
                paths[node] = (*paths[parents[node]], ids[node])
            assert len(set(paths.values())) == len(paths)
            real = trials.node[b] >= 0
            found = torch.stack([trials.parent[b], trials.node[b], trials.law[b]], 1)[real].tolist()
            assert len(found) == len(expected) == draft.proposed[b]
            for (parent, node, row), (_, _, path, token, law) in zip(found, expected, strict=True):
                assert (paths[parent], paths[node]) == (path, (*path, token))
                torch.testing.assert_close(draft.laws.rows[b, row], law, atol=1e-4, rtol=1e-4)
            merged += draft.proposed[b] - tree.counts[b]
    assert merged >= 5


def test_greedy_drafts_are_one_hot_and_tried_once():
    weights = [*models(1) * 2, build("llama", seed=5)]
    _, _, used = decode_packed(
        asked(8, 0.9),
        lambda pool, _: Watched(
            [own_draft(pool, w, f"d{i}") for i, w in enumerate(weights)],
            VOCABULARY,
            [96] * 3,
            False,
        ),
        MULTI_ROUND,
        K,
    )
    for _, draft in drafted(used):
        assert draft.trials.kind is TrialKind.DETERMINISTIC_SET
        assert isinstance(draft.laws, OneHotLaws)
        for b, count in enumerate(draft.tree.counts):
            tried = [n for n in draft.trials.node[b].tolist() if n >= 0]
            assert sorted(tried) == list(range(count))
            # Two of the three models are the same, so that at least a third is merged.
            assert count <= 2 * draft.proposed[b] / 3


def test_two_copies_of_one_model_draw_with_numbers_of_their_own():
    def uniform(tokens):
        return [0.0] * 16

    asked_for = [request([0], 2 + K, temperature=1.0, seed=seed) for seed in range(200)]
    seen = []

    def both(pool):
        models = [TableModel(f"d{i}", pool, uniform) for i in range(2)]
        made = Watched(models, 16, [64] * 2)
        seen.append(made)
        return made

    decode(asked_for, uniform, both, MULTI_ROUND, K)
    (_, draft), *_ = seen[0].seen
    same = sum(count < 2 * K for count in draft.tree.counts)
    # The first tokens agree with chance 1/16.
    assert 2 <= same <= 30


def test_what_is_declared_is_what_is_drafted():
    assert INFO.facts({}).trials == "independent"
    assert INFO.facts({"sampling": "sampled"}).law == "dense"
    greedy = INFO.facts({"sampling": "greedy"})
    assert (greedy.law, greedy.trials, greedy.tree) == ("one_hot", "deterministic_set", True)


@pytest.mark.parametrize("named", [None, "a", [], ["a"], ["a", 3], ["a"] * 9, {"a": "b"}])
def test_models_must_be_two_to_eight_names(named):
    with pytest.raises(UsageError, match=r"arm arm: models = .* takes 2 to 8 model names"):
        MultiDraftDrafter.build({} if named is None else {"models": named}, context_of())
