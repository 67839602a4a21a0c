"""Heads refilled before anybody knows what was accepted: the same drafts, the same tokens."""

from itertools import product

import pytest
import torch

from specbench.decoding.protocols import BONUS, Acceptance
from specbench.decoding.schedule import IN_ORDER, Overlapped
from specbench.decoding.tree import PAD, chain
from specbench.drafters.features import drafter as features
from specbench.drafters.features.splice import spliced
from specbench.drafters.grow.chain import Chain
from specbench.models.heads.build import build_feature_head
from specbench.verify.greedy import RULE as GREEDY
from specbench.verify.rejection import RULE as REJECTION
from specbench.verify.target_match import RULE as TARGET_MATCH
from tests.drafters.feature_loops import PROMPTS, Compared, building, planted_run
from tests.drafters.packed_loops import asked, decode_packed
from tests.drafters.test_mtp import checkpoint, definition
from tests.drafters.toy_head import SlowToy, ToyHead
from tests.models.families import VOCABULARY, build
from tests.models.heads.tiny_heads import VOCABULARY as MTP_VOCABULARY
from tests.models.heads.tiny_heads import loaded, tiny_model
from tests.planting import planting

pytestmark = pytest.mark.usefixtures("one_thread")

TARGET = build("llama")
HEADS = {
    "final": ToyHead(),
    "target's hidden": ToyHead(keeps_hidden=True),
    "few tokens": ToyHead(target_ids=torch.arange(1, VOCABULARY, 3)),
}
OVERLAPPED = Overlapped()


@pytest.fixture
def passes(monkeypatch):
    """How many passes were queued ahead of their outcome."""
    found = []
    ahead = features.FeatureDrafter.ahead

    def counted(self, *given):
        found.append(ahead(self, *given))
        return found[-1]

    monkeypatch.setattr(features.FeatureDrafter, "ahead", counted)
    return found


def chains(network, width=VOCABULARY, sampled=True):
    return building(network, lambda rows_of: Chain(rows_of, sampled), width)


def test_every_verdict_of_two_requests_puts_the_tokens_behind_their_slots():
    """By hand: 10, 11, 12 and 20 were drafted; 98 and 99 are what the rule added."""
    drafted, added = [[10, 11, 12], [20]], [98, 99]
    tree = chain(torch.tensor([[10, 11, 12], [20, PAD, PAD]]), (3, 1))
    for accepted in product(range(4), range(2)):
        count = torch.tensor(accepted)
        verdict = Acceptance(torch.full((2, 4), PAD), count, torch.tensor(added), count)
        tokens, last = spliced(tree, verdict, 100)
        lines = tokens.split([4, 2])
        for line, n, own, new in zip(lines, accepted, drafted, added, strict=True):
            assert line[: n + 1].tolist() == [*own[:n], new]
        assert last.tolist() == [accepted[0], 4 + accepted[1]]
        assert tokens.min() >= 0


def test_an_id_from_a_broken_row_is_no_id():
    verdict = Acceptance(*(torch.tensor(part) for part in ([[PAD]], [0], [7], [BONUS])))
    tokens, _ = spliced(chain(torch.empty(1, 0, dtype=torch.long), (0,)), verdict, 7)
    assert tokens.tolist() == [6]


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("head", HEADS)
def test_drafts_are_those_of_the_definition_whatever_was_accepted(passes, head, k):
    network = HEADS[head]
    found = planted_run(
        asked(24), chains(network), planting, k, TARGET, True, SlowToy(network), OVERLAPPED
    )
    assert found.compared >= 40
    assert sum(passes) >= len(passes) - 1 >= 6
    if network.target_ids is None:
        assert found.lengths.keys() >= set(range(k + 1))


def test_one_token_of_a_real_family_at_every_verdict(passes):
    target = tiny_model("mimo")
    made = checkpoint("mimo", target)
    found = planted_run(
        asked(40, prompts=PROMPTS),
        chains(build_feature_head(made, loaded(target)), MTP_VOCABULARY),
        planting,
        1,
        target,
        True,
        definition(made, target),
        OVERLAPPED,
    )
    assert all(found.lengths[n] >= 20 for n in (0, 1)), found.lengths
    assert sum(passes) >= len(passes) - 1 >= 6


@pytest.mark.parametrize("rule", [GREEDY, REJECTION, TARGET_MATCH], ids=lambda r: r.info.name)
@pytest.mark.parametrize("k", [1, 4])
def test_outputs_and_steps_are_those_of_the_schedule_in_order(passes, rule, k):
    temperature = 0.0 if rule is GREEDY else 0.9
    build_one = chains(HEADS["final"])

    def decoded(schedule):
        rows, _, _ = decode_packed(
            asked(30, temperature), lambda pool, _: build_one(pool), rule, k, TARGET, True, schedule
        )
        return [(row.trace.output_ids, row.trace.steps) for row in rows]

    wanted = decoded(IN_ORDER)
    assert not passes
    assert decoded(OVERLAPPED) == wanted
    assert sum(passes) >= len(passes) - 1 >= 6


def test_sampled_drafts_are_those_of_a_drafter_built_anew(passes):
    network, build_one = HEADS["final"], chains(HEADS["final"])

    def compared(pool, _):
        return Compared(build_one(pool), build_one, TARGET, SlowToy(network))

    rows, _, used = decode_packed(asked(24, 0.9), compared, REJECTION, 3, TARGET, False, OVERLAPPED)
    assert used.compared >= 40
    assert any(sum(row.trace.steps.accepted) for row in rows)


def test_requests_beyond_the_heads_context_go_on_without_it(passes):
    made = building(HEADS["final"], lambda rows_of: Chain(rows_of, True), VOCABULARY, context=10)
    planted_run(asked(24), made, planting, 3, TARGET, True, None, OVERLAPPED)
    assert set(passes[:3]) == {True}
    assert passes[-1] is False


def off_by_one(tree, verdict, vocabulary):
    """Goes on from the row before the last accepted one."""
    tokens, last = spliced(tree, verdict, vocabulary)
    return tokens, last - (verdict.n_accepted > 0).long()


def not_shifted(tree, verdict, vocabulary):
    """Puts every token behind the slot of its own position."""
    tokens, last = spliced(tree, verdict, vocabulary)
    return tokens.roll(1), last


@pytest.mark.parametrize("mutant", [off_by_one, not_shifted])
def test_a_splice_that_is_off_is_caught(monkeypatch, mutant):
    monkeypatch.setattr(features, "spliced", mutant)
    made = chains(HEADS["final"])
    planted_run(asked(16), made, planting, 3, TARGET, False, None, OVERLAPPED)
    with pytest.raises(AssertionError):
        planted_run(asked(16), made, planting, 3, TARGET, True, None, OVERLAPPED)
