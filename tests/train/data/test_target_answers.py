"""The demo model answers: greedily what plain transformers prefers, and in batches the same."""

import pytest

from specbench.core.request import Sampling, Stops
from specbench.core.trace import Finish
from specbench.errors import SpecbenchError
from specbench.models.locate import DEMO_MODEL, locate
from specbench.models.opened import OpenedTarget
from specbench.train.data.answers import answer
from specbench.train.data.asked import Asked
from specbench.train.data.prompts import collect
from specbench.train.data.target_answers import refuse_failed, request_of
from tests.train.job.spelling import LETTERS, ids, write_target

QUESTIONS = ("Name a river.", "What is 2 + 3?", "Write one word in German.")
NEW_TOKENS = 6


@pytest.fixture(scope="module")
def opened():
    from specbench.train.data.target_answers import TargetAnswers

    target = TargetAnswers({"model": DEMO_MODEL, "dtype": "float32"})
    yield target
    target.close()


@pytest.mark.model
def test_greedy_answers_are_those_of_plain_decoding(opened, recipe, tmp_path, told):
    """Each token is the likeliest, up to rounding, of a plain forward over what comes before."""
    import torch

    from specbench.models.load import load_model

    asked = [
        Asked(f"q-{i}", "q", ({"role": "user", "content": q},)) for i, q in enumerate(QUESTIONS)
    ]
    data = recipe(temperatures=[0.0], max_new_tokens=NEW_TOKENS, batch=2)
    found = answer(data, asked, tmp_path, lambda: opened, told)
    assert len(found.kept) + sum(found.left_out.values()) == len(QUESTIONS)
    model = load_model(locate(DEMO_MODEL), dtype="float32").model
    for one in found.kept:
        assert one.prompt == opened.render(asked[int(one.id[2])].messages).token_ids
        with torch.inference_mode():
            logits = model(torch.tensor([one.prompt + one.answer])).logits[0]
        rows = logits[len(one.prompt) - 1 : -1]
        chosen = rows.gather(1, torch.tensor(one.answer)[:, None])[:, 0]
        assert (rows.max(dim=1).values - chosen).max() <= opened.engine.tie_tolerance
        ended = one.answer[-1] in opened.stops().token_ids
        assert one.finish == ("eos" if ended else "length")
        assert ended or len(one.answer) == NEW_TOKENS


@pytest.mark.model
def test_the_model_writes_prompts(opened, recipe, tmp_path, told):
    source = {
        "source": "self",
        "name": "own",
        "count": 2,
        "openers": ["How do I"],
        "max_tokens": 12,
    }
    found = collect(recipe(source), tmp_path, lambda: opened, told)
    assert all(prompt.text.startswith("How do I") for prompt in found.prompts)
    assert len(found.prompts) + sum(found.left_out.values()) == 2


@pytest.mark.model
def test_an_output_ends_with_the_context(opened, monkeypatch):
    monkeypatch.setattr(opened.engine, "context_limit", 8)
    lengths = {}
    for prompt in (5, 8):
        ids = opened.render([{"role": "user", "content": "Count to one hundred."}]).token_ids
        request = request_of("x", ids[:prompt], Sampling(0.0), 50, Stops(), 0)
        (trace,) = opened.run([request], 1)
        lengths[prompt] = len(trace.output_ids)
        assert trace.finish is Finish.LENGTH
    assert lengths == {5: 3, 8: 0}


@pytest.mark.model
def test_facts_say_what_answers_follow_from(opened):
    facts = opened.facts()
    assert facts["name"] == DEMO_MODEL
    assert facts["quant"] == "none"
    assert len(facts["weight_hash"]) == 64
    assert facts["template"].startswith("sha256:")


@pytest.fixture
def speller(tmp_path, one_thread):
    """A tiny target that needs no download, and three requests to it."""
    from specbench.train.data.target_answers import TargetAnswers

    write_target(tmp_path / "target")
    target = TargetAnswers({"model": str(tmp_path / "target")})
    requests = [
        request_of(f"q-{letter}", (1, ids()[LETTERS.index(letter)]), Sampling(), 4, Stops(), 0)
        for letter in "abc"
    ]
    yield target, requests
    target.close()


def torchs_error():
    import torch

    return torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 90.00 GiB")


@pytest.mark.parametrize("error", [torchs_error, MemoryError], ids=["device", "host"])
def test_a_pool_that_does_not_fit_names_the_key_to_lower(speller, monkeypatch, error):
    target, requests = speller
    plain = OpenedTarget.new_pool

    def small(opened, slabs, rows):
        if slabs > 2:
            raise error()
        return plain(opened, slabs, rows)

    monkeypatch.setattr(OpenedTarget, "new_pool", small)
    for key in ({}, {"key": "validate.limit"}):
        name = key.get("key", "data.batch")
        with pytest.raises(SpecbenchError, match=f"out of memory with {name} = 3 requests") as said:
            list(target.run(requests, 3, **key))
        assert f"lower {name} and give the same command again" in said.value.hint
    # As the hint says.
    assert {len(trace.output_ids) for trace in target.run(requests, 2)} == {4}


def test_other_errors_of_an_engine_stay_what_they_are(speller, monkeypatch):
    target, requests = speller

    def broken(opened, slabs, rows):
        raise RuntimeError("device-side assert")

    monkeypatch.setattr(OpenedTarget, "new_pool", broken)
    with pytest.raises(RuntimeError, match="device-side assert"):
        list(target.run(requests, 3))


def test_a_failed_request_names_the_key_of_whoever_asked(speller):
    target, requests = speller
    (trace,) = target.run(requests[:1], 1)
    trace.finish, trace.error = Finish.OOM, "OutOfMemoryError: CUDA out of memory"
    for key, named in (((), "data.batch"), (("validate.limit",), "validate.limit")):
        with pytest.raises(SpecbenchError, match="answering q-a failed: OutOfMemory") as said:
            refuse_failed(trace, "answering", *key)
        assert f"lower {named} and give the same command again" in said.value.hint
