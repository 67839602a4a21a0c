"""Drafts that are models: options that change their length, and tokenizers that differ (E5)."""

import shutil
from dataclasses import replace

import pytest

from specbench.core.request import Limits, Sampling, Stops
from specbench.core.trace import Finish, ShortDraft
from specbench.engines.transformers_assisted.engine import open_engine
from specbench.errors import UsageError
from tests.engines.native_runs import requests, run
from tests.engines.transformers_assisted.runs import arm, broken
from tests.models.families import build

pytestmark = pytest.mark.usefixtures("one_thread")

LETTERS = "abcdefg"
PAIRS = [x + y for x in "abc" for y in "abc"]


def write_letters(folder, pieces, seed, rows=None):
    """A model whose tokens are an end and the given letters and pairs of letters."""
    from tokenizers import Tokenizer, decoders, models
    from transformers import PreTrainedTokenizerFast

    vocabulary = {token: i for i, token in enumerate(["<e>", *pieces])}
    merges = [tuple(piece) for piece in pieces if len(piece) == 2]
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    backend.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<e>")
    size = rows or len(vocabulary)
    model = build(
        "llama", seed=seed, vocab_size=size, num_hidden_layers=2, eos_token_id=0, bos_token_id=0
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Letters, pairs of them, fewer letters, and letters with padded rows."""
    root = tmp_path_factory.mktemp("letters")
    return {
        "letters": write_letters(root / "letters", LETTERS, 4),
        "pairs": write_letters(root / "pairs", [*LETTERS, *PAIRS], 1),
        "fewer": write_letters(root / "fewer", LETTERS[:5], 1),
        "padded": write_letters(root / "padded", LETTERS, 1, rows=20),
    }


@pytest.fixture(scope="module")
def universal(folders):
    """Letters as the target; drafts of other vocabularies exchange text with it."""
    arms = [
        arm(name, "draft_model", 3, model=str(folders[name]), universal=True)
        for name in ("pairs", "fewer")
    ]
    opened = open_engine({"model": str(folders["letters"])}, [arm("plain"), *arms])
    yield opened
    opened.close()


def spoken(universal, count=3, temperature=0.0, text="abcabcabc"):
    ids = tuple(universal._loaded.tokenizer(text).input_ids)
    return [
        replace(
            r,
            token_ids=ids[: len(ids) - i],
            sampling=Sampling(temperature),
            limits=Limits(16),
            stops=Stops((0,)),
        )
        for i, r in enumerate(requests(temperature, prompts=count))
    ]


@pytest.mark.parametrize("name", ["pairs", "fewer"])
def test_e5_a_draft_of_another_tokenizer_leaves_the_output_alone(universal, name):
    asked = spoken(universal)
    plain = run(universal, "plain", asked, 1)
    for item, trace in run(universal, name, asked, 1).items():
        assert trace.output_ids == plain[item].output_ids
        assert broken(trace) == []


def test_e5_counts_are_in_tokens_of_the_target(universal):
    traces = run(universal, "pairs", spoken(universal, 6), 1).values()
    # Pairs are two letters each: a draft of three of its tokens can be more than three of ours.
    assert max(n for t in traces for n in t.steps.verified) > 3
    assert sum(sum(t.steps.accepted) for t in traces) > 0


def test_a_sampled_request_does_not_spoil_the_draft_for_greedy_ones(universal):
    asked = spoken(universal)
    before = run(universal, "pairs", asked, 1)
    warm = spoken(universal, temperature=1.0)
    sampled = run(universal, "pairs", warm, 1)
    for trace in sampled.values():
        assert trace.ok, trace.error
        assert broken(trace) == []
        assert set(trace.output_ids) <= set(range(1 + len(LETTERS)))
    for item, trace in run(universal, "pairs", asked, 1).items():
        assert (trace.output_ids, trace.steps.accepted) == (
            before[item].output_ids,
            before[item].steps.accepted,
        )
    again = run(universal, "pairs", warm, 1)
    assert {i: t.output_ids for i, t in again.items()} == {
        i: t.output_ids for i, t in sampled.items()
    }


def test_a_vocabulary_within_the_targets_cannot_be_sampled(universal):
    asked = spoken(universal, 1, temperature=1.0)
    with pytest.raises(UsageError, match="above temperature 0"):
        universal.warm_up("fewer", asked, 1)
    (trace,) = run(universal, "fewer", asked, 1).values()
    assert trace.finish is Finish.ERROR
    assert "above temperature 0" in trace.error


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("pairs", {}, "different tokenizers"),
        ("padded", {}, "8 vocabulary rows, the draft 20"),
        ("letters", {"universal": True}, "both have 8 vocabulary rows"),
    ],
)
def test_vocabularies_that_the_library_would_mix_up_are_refused(folders, name, options, message):
    asked = arm("a", "draft_model", 3, model=str(folders[name]), **options)
    with pytest.raises(UsageError, match=message) as caught:
        open_engine({"model": str(folders["letters"])}, [asked])
    assert caught.value.hint


def test_rows_without_a_token_never_come_out(folders):
    opened = open_engine({"model": str(folders["padded"])}, [arm("plain"), arm("n", "ngram", 3)])
    asked = spoken(opened, 6, temperature=5.0)
    for name in ("plain", "n"):
        for trace in run(opened, name, asked, 1).values():
            assert set(trace.output_ids) <= set(range(1 + len(LETTERS)))


@pytest.mark.parametrize("layers", [2, 5])
def test_layers_outside_the_target_are_refused(tiny_target, layers):
    asked = arm("a", "layer_skip", 3, layers=layers)
    with pytest.raises(UsageError, match=f"layers={layers}"):
        open_engine({"model": str(tiny_target)}, [asked])


def test_the_schedule_grows_with_success_and_starts_anew(tiny_target):
    asked = arm("a", "draft_model", 2, model=str(tiny_target), schedule="heuristic")
    opened = open_engine({"model": str(tiny_target)}, [asked])
    for trace in run(opened, "a", requests(count=20, prompts=2, stops=Stops(())), 1).values():
        cap = len(trace.output_ids)
        # The first iteration drafts 2 and brings 3; then 4, 6, ... up to what is left less one.
        drafts, done = [], trace.arrivals.tokens[0]
        assert done == 3
        while done < cap:
            drafts.append(min(4 + 2 * len(drafts), cap - done - 1))
            done += drafts[-1] + 1
        assert trace.steps.verified == drafts


def test_a_draft_without_confidence_stops_early(tiny_target, other_draft, tmp_path):
    import torch

    # With its last norm at zero the draft gives every token the same small probability.
    folder = tmp_path / "unsure"
    shutil.copytree(other_draft, folder)
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder)
    torch.nn.init.zeros_(model.model.norm.weight)
    model.save_pretrained(folder)
    asked = arm("a", "draft_model", 4, model=str(folder), confidence=0.9)
    opened = open_engine({"model": str(tiny_target)}, [asked])
    (trace,) = run(opened, "a", requests(count=14, prompts=1, stops=Stops(())), 1).values()
    assert set(trace.steps.verified[:-1]) == {1}
    # At the end there is no room for more than one token anyway.
    assert set(trace.steps.short_draft[:-2]) == {ShortDraft.DRAFTER_STOPPED}
