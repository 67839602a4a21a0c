"""Above temperature 0: expected steps given the output, by enumeration and beside decoding."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from specbench.core.request import Stops
from specbench.core.trace import ShortDraft
from specbench.decoding.laws import OneHotLaws
from specbench.decoding.protocols import Draft
from specbench.decoding.tree import TokenTree, TrialKind, chain_trials
from specbench.drafters.draft_model import DraftModelDrafter
from specbench.drafters.none import NoDrafter
from specbench.engines.drafts import forced
from specbench.engines.drafts.driven import Driven
from specbench.engines.drafts.flight import Recording
from specbench.engines.drafts.forced import ForcedPass
from specbench.errors import SpecbenchError
from specbench.metrics.replayed import replayed_alpha, replayed_length
from specbench.models.kv_pool import KVPool
from specbench.models.target import PackedTarget
from specbench.verify.rejection import RULE as REJECTION
from specbench.verify.target_match import RULE as TARGET_MATCH
from tests.engines.drafts.brute_force import outputs, rejection, sequential
from tests.tables import PlannedDrafter, TableModel, decode, random_table, table_draft
from tests.toys import request

pytestmark = pytest.mark.usefixtures("one_thread")

V, LIMIT, END = 3, 5, 2
PROMPT = (0, 1)
CPU = torch.device("cpu")
TARGET, DRAFT = random_table(1, V), random_table(2, V)


def law(table):
    def probabilities(tokens):
        logits = np.array(table(tokens), dtype=np.float64)
        weights = np.exp(logits - logits.max())
        return weights / weights.sum()

    return probabilities


def replay(recordings, drafters, ks, target=TARGET, vocabulary=V, batch=40):
    """Name -> (pool -> drafter, cut, dense); all in one pass over a toy."""
    batch = min(batch, len(recordings))
    pool = KVPool(batch, 64, torch.float32, CPU)
    model = PackedTarget(TableModel("target", pool, target), CPU)
    driven = [Driven(name, make(pool), *how) for name, (make, *how) in drafters.items()]
    found = ForcedPass(model, pool, "target", driven, ks, batch, vocabulary).run(recordings)
    return [f.result() for f in sorted(found, key=lambda flight: flight.number)]


def recordings(found):
    asked = request(PROMPT, LIMIT, temperature=1.0, stops=Stops((END,)))
    return [Recording(asked, output) for output in found]


def check(results, found, name, k):
    for result, known in zip(results, found.values(), strict=True):
        steps = result.drafts[name].steps[k]
        assert steps.count == pytest.approx(known.steps / known.chance, abs=1e-5)
        assert steps.accepted == pytest.approx(known.accepted / known.chance, abs=1e-5)


@pytest.mark.parametrize("span", [32, 1])
def test_sampled_chains_by_enumeration_of_all_outputs(monkeypatch, span):
    monkeypatch.setattr(forced, "SPAN", span)
    ks = (1, 2, 3)
    drafters = {"draft": (table_draft(DRAFT, V), True, True)}
    step = rejection(law(TARGET), law(DRAFT))
    tables = {k: outputs(PROMPT, law(TARGET), step, k, LIMIT, END) for k in ks}
    results = replay(recordings(tables[1]), drafters, ks)
    for k, found in tables.items():
        assert list(found) == list(tables[1])
        # The outputs have the target's law, whatever is drafted: what the derivation rests on.
        assert sum(known.chance for known in found.values()) == pytest.approx(1.0)
        check(results, found, "draft", k)


def test_the_mean_over_outputs_is_what_decoding_takes():
    """Accept length of a replay, weighted as the target draws outputs, is that of decoding."""
    k = 2
    step = rejection(law(TARGET), law(DRAFT))
    found = outputs(PROMPT, law(TARGET), step, k, LIMIT, END)
    drafters = {"draft": (table_draft(DRAFT, V), True, True)}
    results = replay(recordings(found), drafters, (k,))
    chances = [known.chance for known in found.values()]
    mine = sum(c * r.drafts["draft"].steps[k].count for c, r in zip(chances, results, strict=True))
    assert mine == pytest.approx(sum(known.steps for known in found.values()), abs=1e-6)


class Planned(NoDrafter):
    """Proposes a tree of the two best continuations at depth 1 and one behind each, or a chain."""

    def __init__(self, breadth):
        self._breadth = breadth

    def propose(self, rows, budget):
        """Trees cut at the budget; counted with what the brute force uses."""
        ids, parents, counts = [], [], []
        for row, room in zip(rows, budget, strict=True):
            tokens = tuple(row.tokens.tolist())
            nodes, above, paths = [], [], []
            level = [((), -1)]
            for _ in range(max(room, 0)):
                following = []
                for path, parent in level:
                    for x in children(self._breadth)(tokens, path):
                        following.append(((*path, x), len(nodes)))
                        nodes.append(x)
                        above.append(parent)
                        paths.append(path)
                level = following
            ids.append(nodes)
            parents.append(above)
            counts.append(len(nodes))
        width = max(counts)
        table = torch.tensor([line + [-1] * (width - len(line)) for line in ids])
        above = torch.tensor([line + [-1] * (width - len(line)) for line in parents])
        table, above = table.view(len(rows), width), above.view(len(rows), width).long()
        tree = TokenTree(table.long(), above, tuple(counts), False)
        trials = replace(chain_trials(tree, TrialKind.DETERMINISTIC_SET), parent=above)
        short = (ShortDraft.NONE,) * len(rows)
        return Draft(tree, trials, OneHotLaws(), short, tuple(counts))


class Follows(PlannedDrafter):
    """A tree whose second root is the planned token."""

    def propose(self, rows, budget):
        draft = super().propose(rows, budget)
        right = draft.tree.ids
        ids = torch.cat([torch.where(right >= 0, (right + 1) % V, right), right], 1)
        counts = tuple(2 * n for n in draft.tree.counts)
        tree = TokenTree(ids, torch.full_like(ids, -1), counts, False)
        trials = chain_trials(tree, TrialKind.DETERMINISTIC_SET)
        return replace(draft, tree=tree, trials=trials, proposed=counts)


def children(breadth):
    """The best tokens of the draft behind the path: ``breadth`` of them at the root, then one."""

    def best(tokens, path):
        order = np.argsort(-law(DRAFT)((*tokens, *path)), kind="stable")
        return [int(x) for x in order[: breadth if not path else 1]]

    return best


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("breadth", [1, 2, 3])
def test_trees_without_chance_by_enumeration_of_all_outputs(cut, breadth):
    ks = (1, 2, 3)
    step = sequential(law(TARGET), children(breadth))
    tables = {k: outputs(PROMPT, law(TARGET), step, k, LIMIT, END) for k in ks}
    drafters = {"tree": (lambda pool: Planned(breadth), cut, False)}
    results = replay(recordings(tables[1]), drafters, ks)
    for k, found in tables.items():
        check(results, found, "tree", k)


def test_overlaps_are_weighted_with_the_chance_that_their_depth_is_reached():
    found = outputs(PROMPT, law(TARGET), rejection(law(TARGET), law(DRAFT)), 2, LIMIT, END)
    drafters = {
        "draft": (table_draft(DRAFT, V), True, True),
        "tree": (lambda pool: Planned(2), False, False),
    }
    results = replay(recordings(found), drafters, (2,))
    target, draft = law(TARGET), law(DRAFT)
    for result, output in zip(results, found, strict=True):
        tokens = (*PROMPT, *output)
        places = range(len(PROMPT) + 1, min(len(tokens), len(PROMPT) + LIMIT - 1))
        overlap, reached, mass = np.zeros(2), np.zeros(2), np.zeros(2)
        for at in places:
            weight = 1.0
            for depth in range(2):
                # Behind the record, and on the last token of the limit, nothing is drafted.
                if at + depth >= min(len(tokens), len(PROMPT) + LIMIT - 1):
                    break
                p, q = target(tokens[: at + depth]), draft(tokens[: at + depth])
                overlap[depth] += weight * np.minimum(p, q).sum()
                reached[depth] += weight
                weight *= min(1.0, q[tokens[at + depth]] / p[tokens[at + depth]])
            path = ()
            for depth in range(2):
                if at + depth >= min(len(tokens), len(PROMPT) + LIMIT - 1):
                    break
                found_here = children(2)(tokens[:at], path)
                mass[depth] += target(tokens[: at + depth])[found_here].sum()
                if tokens[at + depth] not in found_here:
                    break
                path = (*path, tokens[at + depth])
        score = result.drafts["draft"]
        assert score.places == len(places)
        assert score.overlap == pytest.approx(overlap, abs=1e-5)
        assert score.reached == pytest.approx(reached, abs=1e-5)
        assert result.drafts["tree"].overlap == pytest.approx(mass, abs=1e-5)


def test_a_replay_of_plain_outputs_predicts_decoding_of_other_seeds():
    """Statistics of 900 live requests against the expectation from 300 plain ones."""
    k, vocabulary, count = 3, 5, 8
    target, draft = random_table(5, vocabulary), random_table(6, vocabulary, 1.0)

    def asked(seeds):
        return [request((1, 2), count, temperature=1.0, seed=s, item=str(s)) for s in seeds]

    make = table_draft(draft, vocabulary)
    plain = decode(asked(range(300)), target, lambda pool: NoDrafter(), TARGET_MATCH, 0)
    records = [Recording(row.request, tuple(row.trace.output_ids)) for row in plain]
    drafters = {"draft": (make, True, True)}
    results = replay(records, drafters, (k,), target, vocabulary, 100)
    expected = np.array([result.drafts["draft"].steps[k].count for result in results])
    live = decode(asked(range(1000, 1900)), target, make, REJECTION, k)
    steps = np.array([len(row.trace.steps) for row in live], dtype=float)
    gap = expected.mean() - steps.mean()
    error = np.sqrt(expected.var() / len(expected) + steps.var() / len(steps))
    assert abs(gap) < 3.3 * error
    # Knowing the output leaves less to chance than a run has.
    assert expected.var() < steps.var()
    alpha = replayed_alpha(results, "draft", k, 1, seed=1)
    assert 0 < alpha.number() < 1
    assert replayed_length(results, "draft", k, seed=1).number() == pytest.approx(
        sum(r.tokens for r in results) / expected.sum()
    )


def test_tokens_outside_the_drafts_vocabulary_are_counted_and_never_accepted():
    def narrow(pool):
        drafter = DraftModelDrafter(TableModel("draft", pool, lambda t: [0.0, 0.0]), V, 64)
        drafter.vocabulary = frozenset({0, 1})
        return drafter

    (result,) = replay(
        [Recording(request(PROMPT, 6, temperature=1.0), (0, 2, 1, 2, 2, 0))],
        {"draft": (narrow, True, True)},
        (1,),
    )
    score = result.drafts["draft"]
    assert score.outside == 3
    # Places 1, 3 and 4 hold the unknown token 2, and one more is the limit's last.
    assert score.steps[1].accepted[1] <= 1


def test_a_drafter_that_asks_no_steering_is_refused():
    class Stubborn(DraftModelDrafter):
        def propose(self, rows, budget):
            for row in rows:
                row.steering = None
            return super().propose(rows, budget)

    def stubborn(pool):
        return Stubborn(TableModel("draft", pool, DRAFT), V, 64)

    found = [(0, 0, 1, 0, 1), (1, 1, 0, 1, 0)]
    with pytest.raises(SpecbenchError, match="draft own cannot be put on recorded tokens"):
        replay(recordings(found), {"own": (stubborn, True, True)}, (2,))


@pytest.mark.parametrize(
    ("settings", "steps", "accepted"),
    [({"temperature": 1.0, "top_k": 1}, 4, [2, 2]), ({"temperature": 0.0}, 3, [0, 3])],
)
def test_an_impossible_token_is_judged_alike_for_every_kind_of_draft(settings, steps, accepted):
    """Every draft is the record, whose token 3 the target could not emit.

    By hand, with drafts of one token: 1 is accepted and 2 the bonus. Above temperature 0, 3 is not
    accepted; 4 is, and 5 the bonus; 6 is the last, without a draft. At temperature 0 the pairs are
    3 and 4, 5 and 6.
    """
    output = []
    for place in range(7):
        best = int(np.argmax(TARGET((*PROMPT, *output))))
        output.append((best + 1) % V if place == 3 else best)

    def plan(tokens):
        return output[len(tokens) - len(PROMPT) :]

    def same(tokens):
        done = len(tokens) - len(PROMPT)
        return [5.0 * (x == output[min(done, 6)]) for x in range(V)]

    drafters = {
        "lookup": (lambda pool: PlannedDrafter(plan), False, False),
        "drawn": (table_draft(same, V), True, True),
        "tree": (lambda pool: Follows(plan), False, False),
    }
    recording = Recording(request(PROMPT, 7, **settings), tuple(output))
    (result,) = replay([recording], drafters, (1,))
    assert result.foreign == 1
    for name in drafters:
        found = result.drafts[name].steps[1]
        assert (found.count, list(found.accepted)) == (steps, accepted), name


def test_a_token_of_target_probability_0_is_counted_and_never_accepted():
    cold = request(PROMPT, 6, temperature=1.0, top_k=1)
    table = law(TARGET)
    output = [int(np.argmax(table(PROMPT)))]
    while len(output) < 6:
        output.append(int(np.argmax(table((*PROMPT, *output)))))
    output[3] = (output[3] + 1) % V
    drafters = {"draft": (table_draft(TARGET, V), True, True)}
    (result,) = replay([Recording(cold, tuple(output))], drafters, (1,))
    assert result.foreign >= 1
    assert result.drafts["draft"].steps[1].accepted[0] >= 1
