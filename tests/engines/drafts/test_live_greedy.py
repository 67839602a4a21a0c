"""At temperature 0 a replay takes the steps that decoding takes, for every drafter and every K."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from specbench.core.request import Stops
from specbench.decoding.shapes.shape import TreeShape
from specbench.drafters.bigram import BigramDrafter
from specbench.drafters.draft_model import DraftModelDrafter
from specbench.drafters.draft_rows import DraftRows
from specbench.drafters.features.drafter import FeatureDrafter
from specbench.drafters.grow.chain import Chain
from specbench.drafters.grow.dynamic import Dynamic
from specbench.drafters.grow.static import Static
from specbench.drafters.layer_skip import LayerSkipDrafter
from specbench.drafters.ngram import NgramDrafter
from specbench.drafters.suffix import SuffixDrafter
from specbench.drafters.suffix_match import Bounds
from specbench.engines.drafts import forced
from specbench.engines.drafts.flight import Recording
from specbench.models.early_exit import early_exit
from specbench.models.packed import PackedModel
from specbench.verify.greedy import RULE as GREEDY
from tests.drafters.packed_loops import asked, decode_packed, own_draft
from tests.drafters.toy_head import ToyHead
from tests.engines.drafts.passes import head_of, live, noisy, recorded, replay, replayed
from tests.models.families import VOCABULARY, build

pytestmark = pytest.mark.usefixtures("one_thread")

KS = (2, 4)
PROMPTS = [[3, 1, 4, 1, 5], [9], [7, 9, 3], [8, 8, 8, 8]]
COUNT = 38
"""Output tokens: more than one window."""
ROWS_OF = DraftRows(VOCABULARY)
SHAPE = TreeShape.from_paths([(0,), (1,), (2,), (0, 0), (0, 1), (1, 0), (0, 0, 0), (0, 1, 0)])


def lookup(pool, packed):
    return NgramDrafter(1, 3)


def suffix(pool, packed):
    return SuffixDrafter(Bounds(24, 2.0, 0.1))


def second(name, growth=None):
    def make(pool, packed):
        draft = own_draft(pool, noisy(), f"draft-{name}")
        return DraftModelDrafter(draft, VOCABULARY, 96, growth=growth)

    return make


def exits(layers):
    def make(pool, packed):
        model = PackedModel(early_exit(packed.model, layers), f"exit-{layers}", packed.padding)
        pool.alias(f"exit-{layers}", "target", layers)
        model.use(pool)
        return LayerSkipDrafter(model, VOCABULARY)

    return make


def feature(name, growth):
    return lambda pool, packed: FeatureDrafter(head_of(ToyHead(), pool, f"head-{name}"), growth, 96)


def table(pool, packed):
    """What followed each token last in some of the outputs."""
    following = np.full(VOCABULARY, -1, dtype=np.int32)
    for output in live_outputs():
        following[list(output[:-1])] = output[1:]
    return BigramDrafter(following)


@cache
def live_outputs():
    return [one.output for one in recorded(asked(COUNT, prompts=PROMPTS[:2]))]


DRAFTERS = {
    "ngram": (lookup, False, False),
    "bigram": (table, True, False),
    "suffix": (suffix, False, False),
    "draft_model": (second("chain"), True, True),
    "static": (second("static", Static(SHAPE, ROWS_OF, True)), False, True),
    "dynamic": (second("dynamic", Dynamic(7, 3, ROWS_OF)), False, False),
    "exit-1": (exits(1), True, True),
    "exit-2": (exits(2), True, True),
    "feature": (feature("chain", Chain(ROWS_OF, True)), True, True),
    "feature-dynamic": (feature("dynamic", Dynamic(9, 3, ROWS_OF)), False, False),
}


def some(*names):
    return {name: DRAFTERS[name] for name in names}


def compare(requests, drafters, ks=KS, batch=3):
    found = replay(recorded(requests), drafters, ks, batch)
    for name, (make, _, _) in drafters.items():
        for k in ks:
            assert replayed(found, name, k) == live(requests, make, GREEDY, k), (name, k)
    return found


def test_every_drafter_and_k_in_one_pass_takes_the_steps_of_decoding():
    found = compare(asked(COUNT, prompts=PROMPTS), DRAFTERS)
    # The comparison has something to compare: every draft is accepted now and then, none always.
    for name in DRAFTERS:
        for flight in found:
            assert flight.foreign == 0
        accepted = [sum(f.result().drafts[name].steps[4].accepted[1:]) for f in found]
        steps = [f.result().drafts[name].steps[4].count for f in found]
        assert sum(accepted) > 0
        assert sum(steps) < sum(len(f.recording.output) - 1 for f in found)


@pytest.mark.parametrize("span", [1, 5])
def test_the_size_of_a_window_and_of_the_batch_change_nothing(monkeypatch, span):
    drafters = some("ngram", "exit-2", "feature")
    outputs = recorded(asked(20, prompts=PROMPTS))
    whole = replay(outputs, drafters, (3,), 4)
    monkeypatch.setattr(forced, "SPAN", span)
    cut = replay(outputs, drafters, (3,), 3)
    for name in drafters:
        assert replayed(cut, name, 3) == replayed(whole, name, 3)


def test_an_output_that_ends_inside_an_accepted_draft():
    outputs = recorded(asked(COUNT, prompts=PROMPTS))
    # Each request ends at a token of its own, some way in.
    stopped = [
        replace(one.request, stops=Stops((one.output[12 + i],))) for i, one in enumerate(outputs)
    ]
    lengths = [len(one.output) for one in recorded(stopped)]
    assert max(lengths) < COUNT
    compare(stopped, some("ngram", "exit-2", "static"), (2, 4))


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_short_outputs(count):
    compare(asked(count, prompts=PROMPTS), some("ngram", "draft_model"))


def test_the_limit_of_the_context_bounds_drafts_as_it_does_live():
    requests = [
        replace(one, limits=replace(one.limits, context=len(one.token_ids) + 9 + i))
        for i, one in enumerate(asked(COUNT, prompts=PROMPTS))
    ]
    compare(requests, some("ngram", "feature"))


def test_penalties_count_for_drafts_as_they_do_live():
    sampling = {"repetition_penalty": 1.2, "presence_penalty": 0.3}
    requests = [
        replace(one, sampling=replace(one.sampling, **sampling))
        for one in asked(14, prompts=PROMPTS)
    ]
    compare(requests, some("draft_model", "static"), (3,))


def test_a_lookup_that_chooses_by_its_room_is_asked_for_every_k():
    # With room 1 and 3 different occurrences of the last token are continued.
    requests = asked(30, prompts=[[7, 1, 2, 3, 7, 9, 7], [5, 1, 5, 2, 5, 3, 5]])
    made = NgramDrafter(1, 1)
    tokens = np.array(requests[0].token_ids)
    assert made.lookup(tokens, 1) != made.lookup(tokens, 3)[:1]
    compare(requests, {"ngram": (lambda *_: NgramDrafter(1, 1), False, False)}, (1, 2, 3))


def test_a_token_that_the_target_would_not_emit_is_counted():
    (request,) = asked(6, prompts=[[3, 1, 4]])
    (one,) = recorded([request])
    changed = (*one.output[:3], (one.output[3] + 1) % VOCABULARY, *one.output[4:])
    (flight,) = replay([Recording(request, changed)], {"ngram": DRAFTERS["ngram"]}, (2,))
    assert flight.foreign >= 1


def test_a_broken_draft_leaves_its_request_out_and_the_others_alone():
    requests = asked(20)
    outputs = recorded(requests)
    victim = next(i for i, one in enumerate(outputs) if 62 in one.output[3:])
    token = 62

    class Broken:
        """A draft whose logits are NaN behind one token."""

        def __init__(self, inner):
            self.inner = inner

        def __getattr__(self, name):
            return getattr(self.inner, name)

        def forward(self, batch, taps=()):
            logits, states = self.inner.forward(batch, taps)
            ids = batch.ids[batch.logit_rows]
            return logits.masked_fill((ids == token)[:, None], float("nan")), states

    def broken(pool, packed):
        return DraftModelDrafter(Broken(own_draft(pool, noisy())), VOCABULARY, 96)

    drafters = {"good": DRAFTERS["ngram"], "broken": (broken, True, True)}
    found = replay(outputs, drafters, (2,))
    failed = {flight.number for flight in found if flight.failed}
    assert victim in failed
    assert len(failed) < len(found)
    assert "draft's logits" in found[victim].failed
    kept = [flight for flight in found if not flight.failed]
    expected = live(requests, lookup, GREEDY, 2)
    assert replayed(kept, "good", 2) == [expected[flight.number] for flight in kept]


def test_a_broken_target_leaves_its_request_out():
    def broken():
        model = build("llama")
        model.model.embed_tokens.weight[31] = float("nan")
        return model

    prompts = [[3, 1, 4], [31, 62], [7, 9, 3]]
    outputs = [Recording(request, (5, 6, 7, 8)) for request in asked(4, prompts=prompts)]
    drafters = {"ngram": DRAFTERS["ngram"], "feature": DRAFTERS["feature"]}
    found = replay(outputs, drafters, (2,), model=broken())
    assert [bool(flight.failed) for flight in found] == [False, True, False]
    assert "target's logits" in found[1].failed


def test_a_draft_that_learns_from_earlier_answers_learns_the_same():
    """Three items with one prompt: from the second on the answer is known."""
    prompts = [[3, 1, 4], [3, 1, 4], [3, 1, 4]]
    requests = asked(30, prompts=prompts)

    def memory():
        return SuffixDrafter(Bounds(24, 2.0, 0.1), 100)

    used, expected = memory(), []
    for request in requests:
        ((row,), _, _) = decode_packed([request], lambda *_: used, GREEDY, 3)
        used.release([row])
        expected.append(sum(row.trace.steps.accepted))
    outputs = recorded(requests)
    found = replay(outputs, {"memory": (lambda *_: memory(), False, False)}, (3,), batch=1)
    steps = [flight.result().drafts["memory"].steps[3] for flight in found]
    assert [sum(i * n for i, n in enumerate(one.accepted)) for one in steps] == expected
    alone = replay(outputs, some("suffix"), (3,), batch=1)
    assert sum(one.count for one in steps) < sum(
        flight.result().drafts["suffix"].steps[3].count for flight in alone
    )
