"""Multi-token prediction: layers of three families, their switches, one token drafted or more."""

from dataclasses import replace

import pytest
import torch

from specbench.decoding.protocols import CHOSEN, SAMPLED, DraftFacts
from specbench.decoding.shapes.shape import TreeShape
from specbench.drafters import build as drafters_build
from specbench.drafters.grow.chain import Chain
from specbench.drafters.grow.static import Static
from specbench.drafters.mtp import INFO, MtpDrafter
from specbench.errors import UsageError
from specbench.models.heads.build import build_feature_head
from specbench.models.heads.configs import HeadCheckpoint
from specbench.models.kv_pool import KVPool
from specbench.models.locate import Location
from specbench.verify.greedy import RULE as GREEDY
from tests.drafters.build_contexts import context_of
from tests.drafters.feature_loops import PROMPTS, building, planted_run, planting_in
from tests.drafters.packed_loops import asked, decode_packed
from tests.models.heads.reference_mtp import ReferenceMtp
from tests.models.heads.tiny_heads import (
    VOCABULARY,
    loaded,
    mtp_config,
    mtp_shapes,
    random_tensors,
    tiny_model,
)
from tests.planting import planting
from tests.toys import request, sequence

pytestmark = pytest.mark.usefixtures("one_thread")

FAMILIES = ("deepseek", "glm4_moe", "mimo")
RECYCLED = ("pre_norm", "post_norm", "target")


@pytest.fixture(scope="module")
def targets():
    return {family: tiny_model(family) for family in FAMILIES}


def checkpoint(family, target, **changes):
    config = mtp_config(family, loaded(target), **changes)
    return HeadCheckpoint("mtp", family, config, random_tensors(mtp_shapes(config)))


def definition(made, target):
    ends = target.get_input_embeddings().weight, target.get_output_embeddings().weight
    return ReferenceMtp(made.config, made.tensors, *ends)


def chains(rows_of):
    return Chain(rows_of, True)


SHAPE = TreeShape.from_paths([[0], [1], [2], [0, 0], [0, 1], [1, 0], [0, 0, 0], [1, 0, 0]])
ARMS = {
    "one-token": (chains, planting, 1),
    "chain": (chains, planting, 4),
    "tree": (lambda rows_of: Static(SHAPE, rows_of, True), planting_in(SHAPE), 3),
}


@pytest.mark.parametrize("arm", ARMS)
def test_every_accepted_length_leaves_the_drafter_as_if_rebuilt_from_the_prefix(targets, arm):
    growth, steering, k = ARMS[arm]
    target = targets["mimo"]
    network = build_feature_head(checkpoint("mimo", target), loaded(target))
    made = building(network, growth, VOCABULARY)
    found = planted_run(asked(40, prompts=PROMPTS), made, steering, k, target)
    assert found.checks == sum(found.lengths.values())
    assert found.compared >= 0.8 * found.checks
    assert all(found.lengths[length] >= 20 for length in range(k + 1)), found.lengths


@pytest.mark.parametrize("recycle", RECYCLED)
@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_drafted_is_what_is_defined_for_the_family(targets, family, recycle):
    target = targets[family]
    made = checkpoint(family, target, recycle=recycle)
    network = build_feature_head(made, loaded(target))
    found = planted_run(
        asked(10, prompts=PROMPTS[:4]),
        building(network, chains, VOCABULARY),
        planting,
        3,
        target,
        reference=definition(made, target),
    )
    assert found.compared >= 10


def test_one_token_takes_no_forward_but_the_refill(targets):
    target = targets["mimo"]
    network = build_feature_head(checkpoint("mimo", target), loaded(target))
    slots = []
    states = network.states

    def counted(ids, hidden, positions, plan):
        slots.append(len(ids))
        return states(ids, hidden, positions, plan)

    network.states = counted
    made = building(network, chains, VOCABULARY)
    (row,), _, _ = decode_packed(
        asked(20, prompts=[[3, 1, 4]]), lambda pool, _: made(pool), GREEDY, 1, target
    )
    # The prompt's slots, then in every step but the last those of the committed tokens.
    assert slots == [3, *row.trace.steps.committed[:-1]]


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({}, SAMPLED),
        ({"sampling": "greedy"}, CHOSEN),
        ({"tree": "dynamic"}, DraftFacts("one_hot", "deterministic_set", tree=True)),
        ({"tree": "4x2"}, DraftFacts("dense", "without_replacement", tree=True)),
    ],
)
def test_declared_drafts(options, facts):
    assert INFO.facts(options) == facts
    assert not INFO.needs_model
    assert INFO.kv == "own"


@pytest.fixture
def published(monkeypatch, targets):
    """A checkpoint that is not read from files; what was asked for is kept."""
    asked_for = []

    def read_head(location, *, families, target, dtype, arm):
        asked_for.append((location, tuple(families), dtype, arm))
        return checkpoint("mimo", targets["mimo"])

    monkeypatch.setattr(drafters_build, "read_head", read_head)
    return asked_for


def context(target):
    """What the drafter of an arm is built with."""
    made = context_of(target)
    made.vocabulary = VOCABULARY
    return made


def test_by_default_the_layer_lies_in_the_targets_own_folder(published, targets):
    made_for = context(targets["mimo"])
    made = MtpDrafter.build({}, made_for)
    ((location, families, dtype, arm),) = published
    assert isinstance(location, Location)
    assert location == made_for.target.location
    assert (families, dtype, arm) == (("mtp",), "float32", "arm")
    assert {k: made.room(k) for k in (1, 3)} == {1: 1, 3: 3}
    facts = made_for.loaded[0].facts
    assert facts["oddities"] == []
    assert facts["growth"] == {"kind": "chain", "sampling": "sampled"}
    assert (facts["head"]["order"], facts["head"]["recycle"]) == ("hidden_first", "pre_norm")


def test_the_layer_knows_as_many_positions_as_the_target(published, targets):
    made_for = context(targets["mimo"])
    made_for.target = replace(made_for.target, context_limit=8)
    made = MtpDrafter.build({}, made_for)
    pool = KVPool(1, 32, torch.float32, torch.device("cpu"))
    made_for.use(pool)
    row = sequence(request([3, 1, 4, 1], 20), pool)
    row.append(5)
    made.admit([row], {tap: torch.ones(4, 32) for tap in made.taps})
    assert made.propose([row], [6]).tree.counts == (3,)


def test_an_arm_may_override_the_familys_switches_and_that_is_recorded(published, targets):
    target = targets["mimo"]
    made_for = context(target)
    options = {"order": "embedding_first", "recycle": "target"}
    made = MtpDrafter.build(options, made_for)
    facts = made_for.loaded[0].facts
    assert (facts["head"]["order"], facts["head"]["recycle"]) == ("embedding_first", "target")
    assert facts["oddities"] == [
        "order = 'embedding_first' by the arm, the checkpoint is read as 'hidden_first'",
        "recycle = 'target' by the arm, the checkpoint is read as 'pre_norm'",
    ]
    network = made._head.head
    found = planted_run(
        asked(8, prompts=PROMPTS[:3]),
        building(network, chains, VOCABULARY),
        planting,
        3,
        target,
        reference=definition(checkpoint("mimo", target, **options), target),
    )
    assert found.compared >= 6


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"order": "emb_first"}, "emb_first"),
        ({"recycle": "both"}, "recycle='both'"),
        ({"tree": "dynamic", "sampling": "sampled"}, "dynamic"),
    ],
)
def test_options_that_do_not_fit_are_refused_before_anything_is_read(
    published, targets, options, words
):
    with pytest.raises(UsageError, match=words):
        MtpDrafter.build(options, context(targets["mimo"]))
    assert not published
