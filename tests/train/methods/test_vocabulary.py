"""The draft's tokens among the target's: probabilities by definition, padding, temperatures."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from specbench.errors import PrerequisiteError, UsageError
from specbench.models.heads.configs import FINAL
from specbench.models.linear import pack_linears
from specbench.train.methods.vocabulary import DraftVocabulary
from tests.models.heads.tiny_heads import VOCABULARY, loaded, tiny_model
from tests.train.methods.captured import captured, lines_of, run

pytestmark = pytest.mark.usefixtures("one_thread")

IDS = torch.arange(2, VOCABULARY, 7)
ROWS = torch.tensor([3, 4, 6])


@pytest.fixture
def tiny():
    return loaded(tiny_model("llama"))


def test_probabilities_are_the_targets_own(tiny):
    lines = lines_of((8,), VOCABULARY)
    batch = captured(tiny, lines, [2])
    law = run(tiny.model, lines[0])[0][ROWS].softmax(1)
    found = DraftVocabulary.of(tiny, IDS).probs(batch, ROWS)
    torch.testing.assert_close(found.probs, law[:, IDS], atol=1e-6, rtol=1e-4)
    torch.testing.assert_close(found.mass, law[:, IDS].sum(1), atol=1e-6, rtol=1e-4)
    known = IDS.tolist()

    def row(token):
        return known.index(token) if token in known else -1

    assert found.token.tolist() == [row(lines[0][place + 1]) for place in ROWS.tolist()]
    assert found.best.tolist() == [row(token) for token in law.argmax(1).tolist()]


def test_the_whole_vocabulary_at_another_temperature(tiny):
    lines = lines_of((8,), VOCABULARY)
    batch = captured(tiny, lines, [2])
    logits = run(tiny.model, lines[0])[0][ROWS]
    vocabulary = DraftVocabulary.of(tiny, None)
    vocabulary.require(0.5)
    found = vocabulary.probs(batch, ROWS, 0.5)
    torch.testing.assert_close(found.probs, (2 * logits).softmax(1), atol=1e-5, rtol=1e-3)
    torch.testing.assert_close(vocabulary.drafted(logits, 0.5), 2 * logits)


def test_a_part_has_no_law_at_another_temperature(tiny):
    vocabulary = DraftVocabulary.of(tiny, IDS)
    vocabulary.require(1.0)
    with pytest.raises(UsageError, match=r"train.temperature = 0.7.*38 of 263 tokens"):
        vocabulary.require(0.7)


def test_padding_has_no_probability_on_either_side():
    # Ten rows behind the tokenizer's last id, and a hole at id 9.
    model = tiny_model("llama", vocab_size=VOCABULARY + 10)
    tokens = {str(i): i for i in range(VOCABULARY) if i != 9}
    padded = replace(
        loaded(model),
        tokenizer=SimpleNamespace(get_vocab=lambda: tokens),
        real_vocab_size=len(tokens),
    )
    batch = captured(padded, lines_of((8,), VOCABULARY), [2])
    vocabulary = DraftVocabulary.of(padded, None)
    assert vocabulary.whole
    gone = [9, *range(VOCABULARY, VOCABULARY + 10)]
    probs = vocabulary.probs(batch, ROWS).probs
    assert (probs[:, gone] == 0).all()
    torch.testing.assert_close(probs.sum(1), torch.ones(3))
    drafted = vocabulary.drafted(torch.zeros(1, VOCABULARY + 10)).softmax(1)
    assert (drafted[:, gone] == 0).all()
    assert drafted.sum().item() == pytest.approx(1)
    # All tokens, without the padding: that is the whole vocabulary too.
    assert DraftVocabulary.of(padded, torch.tensor(sorted(tokens.values()))).whole


def test_a_packed_projection_gives_the_same_rows(tiny):
    batch = captured(tiny, lines_of((8,), VOCABULARY), [2])
    wanted = DraftVocabulary.of(tiny, IDS).probs(batch, ROWS)
    assert pack_linears(tiny.model) > 0
    for ids in (IDS, None):
        found = DraftVocabulary.of(tiny, ids).probs(batch, ROWS).probs
        kept = found if ids is not None else found[:, IDS]
        torch.testing.assert_close(kept, wanted.probs, atol=1e-6, rtol=1e-4)


def test_probabilities_do_not_lose_bits_under_autocast(tiny):
    batch = captured(tiny, lines_of((8,), VOCABULARY), [2])
    vocabulary = DraftVocabulary.of(tiny, IDS)
    with torch.autocast("cpu", torch.bfloat16):
        found = vocabulary.probs(batch, ROWS).probs
    assert torch.equal(found, vocabulary.probs(batch, ROWS).probs)


def test_states_in_fewer_bits_leave_rows_that_sum_to_their_mass(tiny):
    batch = captured(tiny, lines_of((8,), VOCABULARY), [2])
    rough = replace(batch, states={FINAL: batch.states[FINAL].bfloat16().float()})
    most = torch.arange(VOCABULARY - 1)
    for ids in (None, most):
        found = DraftVocabulary.of(tiny, ids).probs(rough, ROWS)
        torch.testing.assert_close(found.probs.sum(1), found.mass, atol=1e-6, rtol=1e-6)
        assert (found.mass <= 1).all()


def test_scaled_logits_are_refused(tiny):
    tiny.config.final_logit_softcapping = 30.0
    with pytest.raises(PrerequisiteError, match=r"final_logit_softcapping = 30"):
        DraftVocabulary.of(tiny, None)
