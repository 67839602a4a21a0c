"""Above temperature 0: seeds, the target's law, and what a draft that is sampled twice costs."""

from dataclasses import replace

import pytest
import torch
from scipy import stats

from specbench.core.request import Limits, Sampling, Stops
from tests.engines.native_runs import requests, run
from tests.engines.transformers_assisted.runs import broken

pytestmark = pytest.mark.usefixtures("one_thread")

ARMS = ["plain", "self-3", "other-3", "ngram-3", "layer_skip-3"]


def sampled(count, temperature=1.0, tokens=12, **settings):
    """The same prompt under seeds 0, 1, ..."""
    (first,) = requests(prompts=1, stops=Stops(()))
    sampling = Sampling(temperature, **settings)
    return [
        replace(
            first,
            key=replace(first.key, item=f"seed-{seed}", temperature=temperature),
            token_ids=(9, 40, 9, 40, 9),
            sampling=sampling,
            limits=Limits(tokens),
            seed=seed,
        )
        for seed in range(count)
    ]


@pytest.mark.parametrize("name", ARMS)
def test_b11_the_seed_alone_decides(assisted, name):
    asked = sampled(4)
    before = torch.random.get_rng_state()
    first = {i: t.output_ids for i, t in run(assisted, name, asked, 1).items()}
    assert torch.equal(torch.random.get_rng_state(), before)
    again = {i: t.output_ids for i, t in run(assisted, name, asked[::-1], 1).items()}
    assert first == again
    assert len({tuple(ids) for ids in first.values()}) == 4


@pytest.mark.parametrize("name", ARMS)
def test_identities_hold_for_sampled_outputs(assisted, name):
    for trace in run(assisted, name, sampled(4, 0.8, top_k=20, top_p=0.9, min_p=0.01), 1).values():
        assert broken(trace, k_max=3) == []


def accepted(assisted, temperature):
    traces = run(assisted, "self-3", sampled(6, temperature, tokens=16), 1).values()
    return sum(sum(t.steps.accepted) for t in traces) / sum(sum(t.steps.judged) for t in traces)


def test_a_draft_equal_to_the_target_is_always_accepted_at_temperature_1(assisted):
    assert accepted(assisted, 1.0) == 1.0


def test_the_draft_is_tempered_twice(assisted):
    # softmax(4x) drafts for softmax(2x): were it tempered once, every draft would be accepted.
    assert accepted(assisted, 0.5) < 1.0


SEEDS, COLD, KEPT = 120, 0.5, 6


def law(assisted, prompt, temperature):
    """The target's law behind a prompt, from its logits: the ``KEPT`` likeliest, tempered."""
    logits = assisted._model(input_ids=torch.tensor([prompt])).logits[0, -1].double()
    kept = logits.topk(KEPT).indices
    return kept.tolist(), (logits[kept] / temperature).softmax(0).numpy()


@pytest.mark.parametrize("name", ["self-3", "ngram-3"])
def test_the_first_tokens_follow_the_targets_law(assisted, name):
    asked = sampled(SEEDS, COLD, tokens=2, top_k=KEPT)
    traces = run(assisted, name, asked, 1).values()
    seen = [t.output_ids[0] for t in traces]
    tokens, expected = law(assisted, [9, 40, 9, 40, 9], COLD)
    assert set(seen) <= set(tokens)
    counts = [seen.count(token) for token in tokens]
    assert stats.chisquare(counts, SEEDS * expected).pvalue > 0.01
    if name == "self-3":
        # Both outcomes occur, and the draft's law (tempered twice) would have been told apart.
        assert {t.arrivals.tokens[0] for t in traces} == {1, 2}
        _, drafted = law(assisted, [9, 40, 9, 40, 9], COLD * COLD)
        assert stats.chisquare(SEEDS * drafted, SEEDS * expected).pvalue < 1e-4
