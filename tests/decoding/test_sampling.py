"""Temperature, truncation and penalties against transformers' processors and full sorts."""

import pytest
import torch
from transformers.generation import logits_process as hf

from specbench.core.request import Sampling
from specbench.decoding.sampling import RowContext, penalise, probabilities


def rows(count, vocabulary, seed=0, scale=3.0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, vocabulary, generator=generator) * scale


def by_transformers(logits, *processors):
    scores = logits
    for processor in processors:
        scores = processor(None, scores)
    return torch.softmax(scores, -1)


SETTINGS = [
    (Sampling(0.7), [hf.TemperatureLogitsWarper(0.7)]),
    (Sampling(1.0, top_k=5), [hf.TopKLogitsWarper(5)]),
    (Sampling(1.0, top_k=1), [hf.TopKLogitsWarper(1)]),
    (Sampling(1.0, top_k=900), [hf.TopKLogitsWarper(900)]),
    (Sampling(1.0, top_p=0.9), [hf.TopPLogitsWarper(0.9)]),
    (Sampling(1.0, top_p=0.01), [hf.TopPLogitsWarper(0.01)]),
    (Sampling(1.0, min_p=0.05), [hf.MinPLogitsWarper(0.05)]),
    (
        Sampling(1.3, top_k=40, top_p=0.8, min_p=0.02),
        [
            hf.TemperatureLogitsWarper(1.3),
            hf.TopKLogitsWarper(40),
            hf.TopPLogitsWarper(0.8),
            hf.MinPLogitsWarper(0.02),
        ],
    ),
]


@pytest.mark.parametrize(("settings", "processors"), SETTINGS)
def test_processed_rows_equal_those_of_transformers(settings, processors):
    logits = rows(32, 500)
    expected = by_transformers(logits, *processors)
    torch.testing.assert_close(probabilities(logits, [settings] * 32), expected)


def nucleus_by_full_sort(line, top_p):
    order = sorted(range(len(line)), key=lambda i: -line[i])
    kept, mass = {}, 0.0
    for token in order:
        kept[token] = line[token]
        mass += line[token]
        if mass >= top_p:
            break
    return [kept.get(i, 0.0) / mass for i in range(len(line))]


@pytest.mark.parametrize("top_p", [0.5, 0.95, 0.999])
@pytest.mark.parametrize("scale", [3.0, 0.3])
def test_partial_selection_equals_a_full_sort(top_p, scale):
    # At scale 0.3 half of the mass already takes more than the first 256 of 2,000 tokens.
    logits = rows(4, 2000, seed=1, scale=scale)
    soft = torch.softmax(logits.double(), -1).tolist()
    expected = torch.tensor([nucleus_by_full_sort(line, top_p) for line in soft])
    if scale < 1:
        assert ((expected > 0).sum(1) > 256).all()
    got = probabilities(logits, [Sampling(1.0, top_p=top_p)] * 4)
    torch.testing.assert_close(got, expected.float(), atol=1e-6, rtol=1e-4)


def test_the_token_that_crosses_top_p_is_kept():
    logits = torch.tensor([[0.5, 0.3, 0.2]]).log()
    got = probabilities(logits, [Sampling(1.0, top_p=0.6)])[0]
    assert (got > 0).sum() == 2
    torch.testing.assert_close(got[0], torch.tensor(5 / 8))


def test_greedy_rows_are_one_hot_at_the_lowest_of_equal_maxima():
    logits = torch.tensor([[1.0, 3.0, 3.0], [-torch.inf, 0.0, -torch.inf]])
    expected = torch.tensor([[0.0, 1.0, 0.0], [0.0, 1.0, 0.0]])
    assert torch.equal(probabilities(logits, [Sampling(0.0)] * 2), expected)


def test_mixed_settings_leave_each_row_as_it_is_alone():
    logits = rows(5, 50)
    logits[0, 7:] = -torch.inf
    settings = [Sampling(0.0), Sampling(0.5), Sampling(1.0, top_k=3), Sampling(0.0), Sampling(0.5)]
    alone = [probabilities(logits[i : i + 1], [s]) for i, s in enumerate(settings)]
    got = probabilities(logits, settings)
    assert torch.equal(got, torch.cat(alone))
    assert got.isfinite().all()


def test_repetition_penalty_equals_transformers_over_prompt_and_output():
    logits = rows(3, 40)
    contexts = [RowContext([1, 2, 2], [5, 39]), RowContext([0], []), RowContext([3], [3, 3, 4])]
    expected = torch.cat(
        [
            hf.RepetitionPenaltyLogitsProcessor(1.3)(
                torch.tensor([[*c.prompt, *c.output]]), logits[i : i + 1].clone()
            )
            for i, c in enumerate(contexts)
        ]
    )
    got = penalise(logits, [Sampling(1.0, repetition_penalty=1.3)] * 3, contexts)
    torch.testing.assert_close(got, expected)


def test_frequency_and_presence_penalties_count_the_output_only():
    logits = torch.zeros(1, 6)
    settings = Sampling(1.0, frequency_penalty=0.5, presence_penalty=0.25)
    got = penalise(logits, [settings], [RowContext([0, 1, 1], [2, 2, 2, 3])])
    # Token 2 came three times: 3 * 0.5 + 0.25; token 3 once: 0.5 + 0.25; the prompt is free.
    assert got[0].tolist() == [0.0, 0.0, -1.75, -0.75, 0.0, 0.0]


def test_forbidden_ids_are_impossible_and_the_argument_is_kept():
    logits = rows(1, 6)
    before = logits.clone()
    got = penalise(logits, [Sampling(1.0)], [RowContext([0], [1], forbidden=(3, 5))])
    assert torch.equal(logits, before)
    assert got[0].isinf().nonzero().flatten().tolist() == [3, 5]
