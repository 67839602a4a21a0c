"""Trees at temperature 1 keep the target's law, and a lenient rule is found at the same size."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from specbench.decoding.loop import DecodeLoop
from specbench.decoding.random import Stream, uniforms
from specbench.decoding.shapes.named import named
from specbench.decoding.shapes.parse import parse_shape
from specbench.decoding.timing import TickRecorder
from specbench.drafters.draft_model import DraftModelDrafter
from specbench.drafters.draft_rows import DraftRows
from specbench.drafters.grow import static
from specbench.drafters.grow.candidates import draft_numbers
from specbench.drafters.grow.dynamic import Dynamic
from specbench.drafters.grow.static import Static
from specbench.drafters.multi_draft import MultiDraftDrafter
from specbench.fidelity.columns import columns
from specbench.fidelity.eprocess import EProcess
from specbench.fidelity.verdict import Status, judge
from specbench.laws.outputs import own_law
from specbench.laws.tables import FOUR_DRAFT, FOUR_TARGET, everywhere
from specbench.models.kv_pool import KVPool
from specbench.models.target import PackedTarget
from specbench.verify.multi_round import RULE as MULTI_ROUND
from specbench.verify.traversal import RULE as TRAVERSAL
from tests.planting import LikeTarget, Steered
from tests.tables import run
from tests.toys import ONE_NUMBER, request, sequence

CPU = torch.device("cpu")
V, K = 24, 3
REQUESTS, LENGTH = 60, 60


class Bigrams:
    """A packed forward whose rows depend on the token before alone."""

    def __init__(self, owner, pool, logits):
        self.owner, self.pool, self._logits = owner, pool, logits
        pool.add_owner(owner, ONE_NUMBER)

    def forward(self, batch, taps=()):
        return self._logits[batch.ids[batch.logit_rows]], {}


def model(noise=0.0, seed=0):
    """Logits of spread 1.5; with ``noise`` those of a draft that is near."""
    target = 1.5 * np.random.default_rng(3).normal(size=(V, V))
    off = noise * np.random.default_rng([seed, 5]).normal(size=(V, V))
    return torch.from_numpy(target + off).float()


def single(growth):
    def drafter_of(pool):
        draft = Bigrams("draft", pool, model(0.8))
        return DraftModelDrafter(draft, V, 200, growth=growth)

    return drafter_of


def several(pool):
    drafts = [Bigrams(f"draft:{i}", pool, model(0.8, i)) for i in range(3)]
    return MultiDraftDrafter(drafts, V, [200] * 3)


def steered(growth):
    """A draft that has nothing to do with the target, steered towards it."""

    def drafter_of(pool):
        foreign = Bigrams("draft", pool, model(3.0))
        drafter = DraftModelDrafter(foreign, V, 200, growth=growth)
        return Steered(drafter, lambda row, _: LikeTarget(lambda ids: model()[ids], row, 0.8))

    return drafter_of


ROWS_OF = DraftRows(V)
DRAFTERS = {
    "2x2x1": single(Static(parse_shape("2x2x1", "a"), ROWS_OF, True)),
    "eagle_25": single(Static(named("eagle_25"), ROWS_OF, True)),
    "greedy 3x2x1": single(Static(parse_shape("3x2x1", "a"), ROWS_OF, False)),
    "dynamic": single(Dynamic(12, 4, ROWS_OF)),
    "several": several,
    "like the target": steered(Static(parse_shape("2x2x1", "a"), ROWS_OF, True)),
}


def lenient(rule):
    """The rule with accept numbers times .8: a candidate is kept 1.25 times as often."""

    class Lenient:
        info = rule.info
        admit = staticmethod(rule.admit)

        def __call__(self, tree, trials, rows, laws, states, uniforms):
            less = replace(uniforms, accept=0.8 * uniforms.accept)
            return rule(tree, trials, rows, laws, states, less)

    return Lenient()


def decoded(asked, target, drafter_of, rule, k):
    pool = KVPool(len(asked), 128, torch.float32, CPU)
    loop = DecodeLoop(
        PackedTarget(Bigrams("target", pool, target), CPU),
        drafter_of(pool),
        rule,
        k,
        TickRecorder(lambda: 0),
    )
    rows = [sequence(one, pool) for one in asked]
    run(loop, rows)
    return [row.trace for row in rows]


def evidence(name, rule):
    asked = [
        request([i % V], LENGTH, item=f"p{i}", temperature=1.0, seed=i) for i in range(REQUESTS)
    ]
    return decoded(asked, model(), DRAFTERS[name], rule, K)


@pytest.mark.parametrize(
    ("name", "rule"),
    [*((name, MULTI_ROUND) for name in DRAFTERS), ("2x2x1", TRAVERSAL), ("dynamic", TRAVERSAL)],
)
def test_fidelity_passes_and_leniency_is_found_at_the_same_size(name, rule):
    exact, wrong = evidence(name, rule), evidence(name, lenient(rule))
    kept = [a for trace in exact for a in trace.steps.accepted]
    assert set(kept) == {0, 1, 2, 3}
    verdicts = [judge({"cell": columns(traces)})["cell"] for traces in (exact, wrong)]
    assert [one.n for one in verdicts] == [REQUESTS * LENGTH] * 2
    assert [one.status for one in verdicts] == [Status.PASSED, Status.FAILED]
    process = EProcess()
    process.update(columns(wrong))
    assert process.detected_at(0.01) is not None


SAMPLES, SHORT = 1500, 6
TABLES = FOUR_TARGET, FOUR_DRAFT
CONSTANT = everywhere([1 / 8, 3 / 8, 2 / 8, 2 / 8]), everywhere([4 / 8, 2 / 8, 1 / 8, 1 / 8])
"""The first candidate is mostly wrong, and then three tokens are left: numbers that draft and rule,
or two siblings, have in common show at once."""
FEW = DraftRows(4)
SMALL = {
    "2x2": Static(parse_shape("2x2", "a"), FEW, True),
    "3x1": Static(parse_shape("3x1", "a"), FEW, True),
    "greedy 2x2": Static(parse_shape("2x2", "a"), FEW, False),
    "dynamic": Dynamic(4, 2, FEW),
}


def p_value(name, tables):
    """Chi-square of the last two tokens, which at least two rounds have gone before."""
    target, draft = (rows.log().clamp(min=-1e9) for rows in tables)

    def drafter_of(pool):
        if name == "several":
            other = draft.flip(1)
            drafts = [Bigrams("a", pool, draft), Bigrams("b", pool, other)]
            return MultiDraftDrafter(drafts, 4, [64, 64])
        return DraftModelDrafter(Bigrams("draft", pool, draft), 4, 64, growth=SMALL[name])

    asked = [request([0], SHORT, temperature=1.0, seed=seed) for seed in range(SAMPLES)]
    traces = decoded(asked, target, drafter_of, MULTI_ROUND, 2)
    counts = Counter(tuple(trace.output_ids[-2:]) for trace in traces)
    last = own_law(tables[0], SHORT)[0].view(-1, 4, 4).sum(0)
    expected = {tuple(at): float(last[tuple(at)]) * SAMPLES for at in last.nonzero().tolist()}
    assert counts.keys() <= expected.keys()
    large = [key for key, value in expected.items() if value >= 10]
    observed, wanted = [counts[key] for key in large], [expected[key] for key in large]
    if SAMPLES - sum(wanted) > 1:
        observed.append(SAMPLES - sum(observed))
        wanted.append(SAMPLES - sum(wanted))
    return stats.chisquare(observed, wanted, sum_check=False).pvalue


@pytest.mark.parametrize(
    ("name", "tables"),
    [
        *((name, CONSTANT) for name in [*SMALL, "several"]),
        ("2x2", TABLES),
        ("several", TABLES),
    ],
)
def test_sequences_have_the_law_of_the_target(name, tables):
    assert p_value(name, tables) > 1e-3


def of_the_accept_stream(rows, nodes):
    seeds, steps = ([[getter(row)] for row in rows] for getter in (_seed, _step))
    return torch.from_numpy(uniforms(seeds, Stream.ACCEPT, steps, nodes))


def one_for_all_siblings(rows, nodes):
    return draft_numbers(rows, [[line[0]] * len(line) for line in nodes])


def _seed(row):
    return row.request.seed


def _step(row):
    return row.step


@pytest.mark.parametrize("wrong", [of_the_accept_stream, one_for_all_siblings])
def test_numbers_that_are_shared_are_caught(monkeypatch, wrong):
    monkeypatch.setattr(static, "draft_numbers", wrong)
    assert p_value("2x2", CONSTANT) < 1e-6
