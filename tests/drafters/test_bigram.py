"""Drafts from a bigram table: by hand, in the real loop, and as an arm builds them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from specbench.core.arm import ArmSpec
from specbench.core.trace import ShortDraft
from specbench.drafters.bigram import INFO, BigramDrafter
from specbench.drafters.none import NoDrafter
from specbench.errors import PrerequisiteError, UsageError
from specbench.experiment.arms import check_arms
from specbench.metrics.identities import violations
from specbench.models.kv_pool import KVPool
from specbench.verify.greedy import RULE as GREEDY
from specbench.verify.rejection import RULE as REJECTION
from specbench.verify.target_match import RULE as TARGET_MATCH
from tests.drafters.build_contexts import context_of
from tests.drafters.output_law import Lenient, mild_law, p_of_outputs
from tests.drafters.packed_loops import asked, decode_packed
from tests.models.families import VOCABULARY
from tests.models.heads import fixtures
from tests.models.tables import write_table
from tests.tables import decode
from tests.toys import request, sequence

pytestmark = pytest.mark.usefixtures("one_thread")

K = 4
SIZE = 11
"""Tokens of the target that mostly goes by the last one."""


def drafter_of(*following):
    return BigramDrafter(np.array(following, dtype=np.int32))


@pytest.mark.parametrize(
    ("last", "room", "drafted", "short"),
    [
        (0, 3, [1, 2, 0], ShortDraft.NONE),
        (1, 7, [2, 0, 1, 2, 0, 1, 2], ShortDraft.NONE),
        (3, 3, [4], ShortDraft.DRAFTER_STOPPED),
        (4, 3, [], ShortDraft.NO_MATCH),
        (0, 0, [], ShortDraft.LIMIT),
    ],
)
def test_each_token_is_what_follows_the_one_before(last, room, drafted, short):
    pool = KVPool(1, 32, None, None)
    drafter = drafter_of(1, 2, 0, 4, -1)
    draft = drafter.propose([sequence(request([9, last], 9), pool)], [room])
    assert draft.tree.ids.tolist() == [drafted]
    assert draft.tree.counts == draft.proposed == (len(drafted),)
    assert draft.short == (short,)
    assert drafter.vocabulary == {0, 1, 2, 4}
    assert (drafter.room(room), drafter.feeds(room)) == (room, 0)


def test_requests_of_a_batch_draft_by_themselves():
    pool = KVPool(2, 32, None, None)
    rows = [sequence(request([prompt], 9), pool) for prompt in (0, 3)]
    draft = drafter_of(1, 2, 0, 4, -1).propose(rows, [2, 2])
    assert draft.tree.ids.tolist() == [[1, 2], [4, -1]]
    assert draft.tree.counts == (2, 1)


def mostly_by_the_last_token(tokens):
    """Logits of a target that a bigram table gets right at most places."""
    best = (5 * tokens[-1] + 3) % SIZE
    if (sum(tokens[-3:]) * len(tokens)) % 5 == 1:
        best = (best + 1) % SIZE
    return [5.0 * (token == best) for token in range(SIZE)]


@pytest.mark.parametrize(
    ("rule", "temperature"), [(GREEDY, 0.0), (REJECTION, 0.0), (TARGET_MATCH, 0.8)]
)
def test_output_equals_plain_at_every_accepted_length(rule, temperature):
    requests = [
        request([3, i], 40, item=f"i{i}", temperature=temperature, seed=i) for i in range(20)
    ]
    table = [(5 * token + 3) % SIZE for token in range(SIZE)]
    expected = decode(requests, mostly_by_the_last_token, lambda _: NoDrafter(), TARGET_MATCH, 0)
    rows = decode(requests, mostly_by_the_last_token, lambda _: drafter_of(*table), rule, K)
    assert [row.trace.output_ids for row in rows] == [row.trace.output_ids for row in expected]
    lengths = Counter()
    for row in rows:
        assert violations(row.trace, k_max=K) == []
        lengths.update(row.trace.steps.accepted)
    assert min(lengths[length] for length in range(K + 1)) >= 5, lengths


def test_a_models_cache_is_right_after_every_step():
    requests = asked(25)
    plain, _, _ = decode_packed(requests, lambda *_: NoDrafter(), GREEDY, 0)
    outputs = [row.trace.output_ids for row in plain]
    table = np.full(VOCABULARY, -1, dtype=np.int32)
    for ids in outputs:
        table[ids[:-1]] = ids[1:]
    rows, target, _ = decode_packed(
        requests, lambda *_: BigramDrafter(table), GREEDY, K, check=True
    )
    assert [row.trace.output_ids for row in rows] == outputs
    assert target.checks == sum(len(row.trace.steps) for row in rows)
    assert sum(sum(row.trace.steps.accepted) for row in rows) > 10


@pytest.mark.parametrize("caught", [False, True])
def test_sequences_have_the_law_of_the_target_unless_acceptance_is_lenient(caught):
    law = mild_law(3)
    lines = law.log().tolist()
    requests = [request([0, 1], 5, item=f"i{i}", temperature=1.0, seed=i) for i in range(1200)]
    rule = Lenient(REJECTION) if caught else REJECTION
    rows = decode(requests, lambda t: lines[t[-1]], lambda _: drafter_of(2, 0, 1), rule, 3)
    p = p_of_outputs(rows, law, 1)
    assert p < 1e-6 if caught else p > 1e-3


def built(model, context=None):
    context = context or context_of()
    return BigramDrafter.build({"model": str(model)}, context), context


@pytest.mark.parametrize("file", ["", "bigram.safetensors"])
def test_an_arm_names_the_folder_or_the_file(tmp_path, file):
    following = [(3 * i + 1) % VOCABULARY for i in range(VOCABULARY)]
    folder = write_table(tmp_path / "table", following)
    drafter, context = built(folder / file)
    assert drafter.chain(2, 3) == [7, 22, 67 % VOCABULARY]
    (loaded,) = context.loaded
    assert (loaded.weight_bytes, loaded.kv_bytes) == (4 * VOCABULARY, 0)
    facts = loaded.facts
    assert (facts["name"], facts["family"], facts["tokens"]) == (str(folder / file), "bigram", 9)
    assert len(facts["weight_hash"]) == 64
    assert facts["made_for"] == {
        "name": "org/target",
        "weight_hash": "ab" * 32,
        "trained_on": "",
    }


def with_weights(digest):
    context = context_of()
    context.target = replace(context.target, weight_hash=digest)
    return context


def test_other_weights_of_the_target_are_noted(tmp_path):
    folder = write_table(tmp_path, [-1] * VOCABULARY)
    (told,) = built(folder, with_weights("cd" * 32))[1].loaded[0].facts["oddities"]
    assert "made for org/target with weights abababababab" in told
    assert "tiny has weights cdcdcdcdcdcd" in told
    assert built(folder, with_weights("ab" * 32))[1].loaded[0].facts["oddities"] == []


@pytest.mark.parametrize(
    ("following", "config", "message"),
    [
        ([0, 1], {}, "has 2 tokens, the target 64"),
        ([0] * VOCABULARY, {"vocabulary": 63}, "config.json says 63 tokens, next has 64"),
        ([VOCABULARY] + [0] * (VOCABULARY - 1), {}, "ids run from 0 to 64"),
        ([-2] + [0] * (VOCABULARY - 1), {}, "ids run from -2 to 0"),
    ],
)
def test_tables_that_do_not_fit(tmp_path, following, config, message):
    folder = write_table(tmp_path, following, **config)
    with pytest.raises(PrerequisiteError, match=message):
        built(folder)


def test_what_is_no_table(tmp_path):
    fixtures.eagle3(tmp_path / "head")
    with pytest.raises(UsageError, match="holds no bigram table"):
        built(tmp_path / "head")
    (tmp_path / "m.gguf").touch()
    with pytest.raises(UsageError, match="a GGUF file, which holds no bigram table"):
        built(tmp_path / "m.gguf")
    with pytest.raises(PrerequisiteError, match=r"no file ./none/bigram\.safetensors"):
        built("./none/bigram.safetensors")


def test_a_table_on_the_hub_is_fetched_first(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    with pytest.raises(PrerequisiteError) as caught:
        built("org/table")
    assert "models fetch --head org/table" in caught.value.hint


def test_an_arm_must_name_a_table():
    with pytest.raises(UsageError, match="needs a draft model"):
        check_arms([ArmSpec("floor", INFO.name, 3)], [0.0])
    (arm,) = check_arms([ArmSpec("floor", INFO.name, 3, drafter_options={"model": "x"})], [0.8])
    assert (arm.draft_law, arm.tree, arm.stateful) == ("one_hot", "chain", False)
