"""What an arm's options make of Medusa and blockwise decoding, and what is recorded."""

import pytest

from specbench.core.arm import ArmSpec
from specbench.decoding.shapes.named import named
from specbench.drafters import blockwise, medusa
from specbench.drafters.blockwise import BlockwiseDrafter
from specbench.drafters.build import BuildContext
from specbench.drafters.medusa import MedusaDrafter
from specbench.errors import UsageError
from specbench.experiment.arms import check_arms
from specbench.verify.blockwise import RULE as BLOCKWISE
from specbench.verify.greedy import RULE as GREEDY
from tests.drafters.build_contexts import context_of
from tests.drafters.packed_loops import asked, decode_packed
from tests.models.heads.medusa_heads import HIDDEN, VOCABULARY, checkpoint

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def built(monkeypatch):
    """(drafter, options, heads) -> the drafter, and what was recorded of its checkpoint."""

    def make(kind, options, made=None):
        made = made or checkpoint(heads=4)
        monkeypatch.setattr(BuildContext, "checkpoint", lambda *_: made)
        context = context_of()
        drafter = kind.build({"model": "heads", **options}, context)
        (loaded,) = context.loaded
        return drafter, loaded

    return make


@pytest.mark.parametrize(
    ("options", "nodes"),
    [
        ({}, [10, 38, 61, 63]),
        ({"tree": "chain"}, [1, 2, 3, 4]),
        ({"tree": "4x2"}, [4, 12, 12, 12]),
        ({"tree": [[0], [1], [1, 0]]}, [2, 3, 3, 3]),
    ],
)
def test_the_tree_is_the_arms(built, options, nodes):
    drafter, _ = built(MedusaDrafter, options)
    assert [drafter.room(k) for k in (1, 2, 3, 4)] == nodes
    assert [len(named("medusa_63").cut(k)) for k in (1, 2, 3, 4)] == [10, 38, 61, 63]


def test_a_dynamic_tree_is_refused_with_the_reason(built):
    with pytest.raises(UsageError, match="whatever the path"):
        built(MedusaDrafter, {"tree": "dynamic"})
    with pytest.raises(UsageError, match="medusa_36"):
        built(MedusaDrafter, {"tree": "medusa_36"})


def test_what_is_loaded_is_recorded(built):
    _, loaded = built(MedusaDrafter, {})
    # Per head: a block with its bias, and a projection.
    assert loaded.weight_bytes == 4 * 4 * (HIDDEN * HIDDEN + HIDDEN + VOCABULARY * HIDDEN)
    assert loaded.kv_bytes == 0
    assert loaded.facts["family"] == "medusa"
    assert loaded.facts["oddities"] == []


def test_a_tree_that_is_cut_is_recorded(built):
    drafter, loaded = built(MedusaDrafter, {}, checkpoint(heads=2))
    assert drafter.room(4) == 38
    growth = loaded.facts["growth"]
    assert (growth["kind"], growth["nodes"], growth["depth"]) == ("static", 38, 2)
    assert loaded.facts["oddities"] == ["the tree has depth 4; with 2 heads it is cut to 2"]
    _, loaded = built(MedusaDrafter, {"tree": "chain"}, checkpoint(heads=2))
    assert loaded.facts["oddities"] == []


def test_quantised_heads_are_smaller_and_say_so(built):
    whole, loaded = built(MedusaDrafter, {"quant": "int8"})
    assert loaded.facts["quant"] == "int8"
    blocks, projections = 4 * HIDDEN * HIDDEN, 4 * 4 * VOCABULARY * HIDDEN
    assert projections + 4 * blocks > loaded.weight_bytes > projections + blocks
    rows, _, _ = decode_packed(asked(8), lambda *_: whole, GREEDY, 3)
    assert all(len(row.trace.output_ids) == 8 for row in rows)


def test_blockwise_drafts_what_medusas_chain_drafts(built):
    def steps(kind, options):
        drafter, _ = built(kind, options)
        rows, _, _ = decode_packed(asked(20), lambda *_: drafter, GREEDY, 4)
        return [(row.trace.output_ids, row.trace.steps.accepted) for row in rows]

    assert steps(BlockwiseDrafter, {}) == steps(MedusaDrafter, {"tree": "chain"})


def test_blockwise_rounds_cost_one_call_of_the_target(built):
    drafter, _ = built(BlockwiseDrafter, {})
    calls = []

    def counted(pool, packed):
        forward = packed.forward
        packed.forward = lambda *a, **b: (calls.append(1), forward(*a, **b))[1]
        return drafter

    rule = BLOCKWISE.configure({"top_k": 1})
    (row,), _, _ = decode_packed(asked(20, prompts=[[3, 1, 4]]), counted, rule, 4)
    assert len(calls) == 1 + len(row.trace.steps)


@pytest.mark.parametrize(
    ("drafter", "options", "rule", "tree"),
    [
        ("medusa", {}, "multi_round", "tree"),
        ("medusa", {}, "typical", "tree"),
        ("medusa", {"tree": "chain"}, "rejection", "chain"),
        ("blockwise", {}, "rejection", "chain"),
        ("blockwise", {}, "greedy", "chain"),
    ],
)
def test_rules_that_judge_its_drafts(drafter, options, rule, tree):
    arm = ArmSpec("a", drafter, 3, rule=rule, drafter_options={"model": "heads", **options})
    (factors,) = check_arms([arm], [0.0])
    assert (factors.tree, factors.draft_law) == (tree, "one_hot")


@pytest.mark.parametrize(
    ("drafter", "options", "said"),
    [
        ("medusa", {"model": "heads"}, "it judges chains"),
        ("medusa", {"model": "heads", "nodes": 5}, "no option 'nodes'"),
        ("blockwise", {"model": "heads", "tree": "4x2"}, "no option 'tree'"),
        ("medusa", {}, "needs a draft model"),
        ("blockwise", {}, "needs a draft model"),
    ],
)
def test_arms_that_cannot_be(drafter, options, said):
    with pytest.raises(UsageError, match=said):
        check_arms([ArmSpec("a", drafter, 3, rule="rejection", drafter_options=options)], [0.0])


def test_both_read_the_final_hidden_state_and_keep_no_kv():
    for info in (medusa.INFO, blockwise.INFO):
        assert (info.taps, info.kv, info.needs_model) == ("final", "none", True)
