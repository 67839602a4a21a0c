"""EAGLE-1, EAGLE-2 and EAGLE-3 over their networks: what is drafted, accepted and declared."""

import pytest
import torch

from specbench.decoding.protocols import CHOSEN, SAMPLED, DraftFacts
from specbench.decoding.shapes.named import named
from specbench.drafters import build as drafters_build
from specbench.drafters.eagle.eagle1 import Eagle1Drafter
from specbench.drafters.eagle.eagle2 import Eagle2Drafter
from specbench.drafters.eagle.eagle3 import Eagle3Drafter
from specbench.drafters.grow.chain import Chain
from specbench.drafters.grow.dynamic import Dynamic
from specbench.drafters.grow.static import Static
from specbench.errors import UsageError
from specbench.models.heads.build import build_feature_head
from specbench.models.heads.configs import HeadCheckpoint
from specbench.models.kv_pool import KVPool
from tests.drafters.build_contexts import context_of
from tests.drafters.feature_loops import (
    PROMPTS,
    building,
    nearly_best,
    planted_run,
    planting_in,
)
from tests.drafters.packed_loops import asked
from tests.models.heads.reference_eagle import ReferenceEagle1, ReferenceEagle3
from tests.models.heads.tiny_heads import (
    VOCABULARY,
    eagle_config,
    eagle_shapes,
    loaded,
    random_tensors,
    tiny_model,
)
from tests.planting import planting
from tests.toys import request, sequence

pytestmark = pytest.mark.usefixtures("one_thread")

TARGET = tiny_model("llama")
POSITIONS = 256
"""That the heads know."""
DRAFTED = 100
"""Tokens of the EAGLE-3 head's own vocabulary."""


def checkpoint(version):
    """A head with random weights; that of EAGLE-3 knows every other token."""
    if version == 1:
        config, own = eagle_config(1, fc_bias=True), ()
    else:
        config, own = eagle_config(3, draft_vocabulary=DRAFTED), ("lm_head.weight",)
    tensors = random_tensors(eagle_shapes(config, own))
    if version == 3:
        tensors["target_ids"] = 2 * torch.arange(DRAFTED) + 1
    return HeadCheckpoint(f"eagle{version}", "test", config, tensors)


def definition(made):
    kind = ReferenceEagle1 if made.family == "eagle1" else ReferenceEagle3
    ends = TARGET.get_input_embeddings().weight, TARGET.get_output_embeddings().weight
    return kind(made.config, made.tensors, *ends)


def context():
    """What the drafters of an arm are built with."""
    context = context_of(TARGET)
    context.vocabulary = VOCABULARY
    return context


EAGLE_25 = named("eagle_25")
ARMS = {
    "eagle1": (1, lambda rows_of: Static(EAGLE_25, rows_of, True), planting_in(EAGLE_25), 5),
    "eagle2": (1, lambda rows_of: Dynamic(40, 4, rows_of), planting_in(nearly_best(4)), 4),
    "eagle3": (3, lambda rows_of: Dynamic(40, 4, rows_of), planting_in(nearly_best(4)), 4),
    "eagle3-chain": (3, lambda rows_of: Chain(rows_of, True), planting, 4),
}


@pytest.mark.parametrize("arm", ARMS)
def test_every_accepted_length_leaves_the_drafter_as_if_rebuilt_from_the_prefix(arm):
    version, growth, steering, k = ARMS[arm]
    network = build_feature_head(checkpoint(version), loaded(TARGET))
    made = building(network, growth, VOCABULARY)
    found = planted_run(asked(48, prompts=PROMPTS), made, steering, k, TARGET)
    assert found.checks == sum(found.lengths.values())
    assert found.compared >= 0.8 * found.checks
    assert all(found.lengths[length] >= 20 for length in range(k + 1)), found.lengths


@pytest.mark.parametrize("arm", ARMS)
def test_what_is_drafted_is_what_the_paper_defines(arm):
    version, growth, steering, k = ARMS[arm]
    made = checkpoint(version)
    network = build_feature_head(made, loaded(TARGET))
    found = planted_run(
        asked(8, prompts=PROMPTS[:4]),
        building(network, growth, VOCABULARY),
        steering,
        k,
        TARGET,
        reference=definition(made),
    )
    assert found.compared >= 8


DRAWN = DraftFacts("dense", "without_replacement", tree=True)
BEST = DraftFacts("one_hot", "deterministic_set", tree=True)


@pytest.mark.parametrize(
    ("drafter", "options", "facts"),
    [
        (Eagle1Drafter, {}, DRAWN),
        (Eagle1Drafter, {"sampling": "greedy"}, BEST),
        (Eagle1Drafter, {"tree": "chain"}, SAMPLED),
        (Eagle2Drafter, {}, BEST),
        (Eagle2Drafter, {"tree": "4x2"}, DRAWN),
        (Eagle3Drafter, {"nodes": 31}, BEST),
        (Eagle3Drafter, {"tree": "chain"}, SAMPLED),
        (Eagle3Drafter, {"tree": "chain", "sampling": "greedy"}, CHOSEN),
    ],
)
def test_declared_drafts(drafter, options, facts):
    assert drafter.info.facts(options) == facts
    assert drafter.info.needs_model
    assert drafter.info.kv == "own"


@pytest.fixture
def published(monkeypatch):
    """Checkpoints that are not read from files; what was asked for is kept."""
    asked_for = []

    def read_head(location, *, families, target, dtype, arm):
        asked_for.append((location, tuple(families), dtype, arm))
        return checkpoint(int(families[0][-1]))

    monkeypatch.setattr(drafters_build, "locate", lambda name, revision=None: name)
    monkeypatch.setattr(drafters_build, "read_head", read_head)
    return asked_for


@pytest.mark.parametrize(
    ("drafter", "family", "options", "room"),
    [
        # Depths of the published shape: 4, 12, 20, 23 and 25 nodes.
        (Eagle1Drafter, "eagle1", {}, {1: 4, 2: 12, 3: 20, 4: 23, 5: 25, 9: 25}),
        # 10 nodes on the first level, 100 more on each of the others, 59 kept.
        (Eagle2Drafter, "eagle1", {}, {1: 10, 2: 59, 7: 60}),
        (Eagle3Drafter, "eagle3", {"nodes": 12, "top_k": 4}, {1: 4, 2: 12, 3: 12, 6: 20}),
        (Eagle3Drafter, "eagle3", {"tree": "chain"}, {1: 1, 5: 5}),
    ],
)
def test_built_from_an_arms_options(published, drafter, family, options, room):
    made_for = context()
    made = drafter.build({"model": "some/head", **options}, made_for)
    assert published == [("some/head", (family,), "float32", "arm")]
    assert {k: made.room(k) for k in room} == room
    assert made.taps == checkpoint(int(family[-1])).config.taps
    (noted,) = made_for.loaded
    assert noted.facts["family"] == family
    assert noted.weight_bytes > 0
    # One layer of 2 KV heads of 12 entries, keys and values, float32.
    assert noted.kv_bytes == 2 * 2 * 12 * 4


@pytest.mark.parametrize(
    ("options", "growth"),
    [
        (
            {"tree": "2x1"},
            {
                "kind": "static",
                "sampling": "sampled",
                "nodes": 4,
                "depth": 2,
                "paths": [[0], [1], [0, 0], [1, 0]],
            },
        ),
        ({"nodes": 12, "top_k": 4}, {"kind": "dynamic", "nodes": 12, "top_k": 4}),
    ],
)
def test_how_drafts_grow_is_recorded_with_the_head(published, options, growth):
    made_for = context()
    Eagle3Drafter.build({"model": "some/head", **options}, made_for)
    (noted,) = made_for.loaded
    assert noted.facts["growth"] == growth
    assert noted.facts["family"] == "eagle3"


def test_a_built_drafter_drafts_within_the_heads_own_context(published):
    made_for = context()
    made = Eagle3Drafter.build({"model": "some/head", "tree": "chain"}, made_for)
    pool = KVPool(1, POSITIONS + 8, torch.float32, torch.device("cpu"))
    made_for.use(pool)
    prompt = [t % VOCABULARY for t in range(POSITIONS - 4)]
    row = sequence(request(prompt, 20), pool)
    row.append(5)
    made.admit([row], {tap: torch.ones(len(prompt), 32) for tap in made.taps})
    assert made.propose([row], [6]).tree.counts == (3,)


@pytest.mark.parametrize(
    ("drafter", "options", "words"),
    [
        (Eagle2Drafter, {"sampling": "sampled"}, "dynamic"),
        (Eagle1Drafter, {"top_k": 4}, "top_k"),
        (Eagle3Drafter, {"nodes": 0}, "nodes = 0"),
        (Eagle1Drafter, {"tree": "eagle_26"}, "eagle_26"),
    ],
)
def test_options_that_do_not_fit_are_refused_before_anything_is_read(
    published, drafter, options, words
):
    with pytest.raises(UsageError, match=words):
        drafter.build({"model": "some/head", **options}, context())
    assert not published


def test_the_weights_of_a_head_can_be_quantised_and_that_is_recorded(published):
    made_for = [context(), context()]
    for one, quant in zip(made_for, ({}, {"quant": "int8"}), strict=True):
        Eagle3Drafter.build({"model": "some/head", **quant}, one)
    whole, small = (one.loaded[0] for one in made_for)
    assert (whole.facts["quant"], small.facts["quant"]) == ("none", "int8")
    assert small.weight_bytes < whole.weight_bytes
