"""Batches of captured conversations: each once per epoch, in an order that can be repeated."""

import itertools

import pytest
import torch

from specbench.models.heads.configs import FINAL
from specbench.train.capture.corpus import Conversation, Corpus, batches
from specbench.train.capture.record import CaptureRecord, ShardEntry
from specbench.train.capture.shard import write_shard
from tests.train.capture.made import answered

HIDDEN = 3


@pytest.fixture
def corpus(tmp_path):
    """Two shards whose states tell conversation and place."""
    lines = [answered("b", 2, 3), answered("c", 1, 2), answered("a", 4, 2)]
    entries, number = [], itertools.count()
    for file, group in (("one", lines[:2]), ("two", lines[2:])):
        count = sum(len(one.prompt) + len(one.answer) for one in group)
        first = next(number) * 100
        states = (first + torch.arange(count))[:, None].expand(-1, HIDDEN).float()
        path = tmp_path / f"{file}.safetensors"
        digest = write_shard(
            path, group, {FINAL: states}, states[:, 0] + 0.5, states[:, 0].long() + 7
        )
        names = {one.id: "" for one in group}
        entries.append(ShardEntry(file=path.name, sha256=digest, answers=names, tokens=count))
    record = CaptureRecord(weight_hash="w", dtype="float32", taps=["final"], shards=entries)
    return Corpus(tmp_path, record, []), {one.id: one for one in lines}


def test_slices_of_conversations(corpus):
    read, lines = corpus
    batch = read.load(read.chosen(["a", "c"]))
    a, c = lines["a"], lines["c"]
    assert batch.ids.tolist() == [*a.prompt, *a.answer, *c.prompt, *c.answer]
    assert (batch.lengths, batch.answers) == ((6, 3), (4, 1))
    # "a" begins the second shard, "c" follows five tokens of "b" in the first.
    places = [100, 101, 102, 103, 104, 105, 5, 6, 7]
    assert batch.states[FINAL][:, 2].tolist() == places
    assert batch.lse.tolist() == [place + 0.5 for place in places]
    assert batch.best.tolist() == [place + 7 for place in places]
    assert (batch.ids.dtype, batch.best.dtype) == (torch.int64, torch.int64)
    moved = batch.to(torch.device("cpu"))
    assert torch.equal(moved.states[FINAL], batch.states[FINAL])


def test_chosen_ones_are_in_the_order_of_their_names(corpus):
    read, _ = corpus
    assert [one.name for one in read.conversations] == ["b", "c", "a"]
    assert [one.name for one in read.chosen({"c", "a", "z"})] == ["a", "c"]


def made(lengths):
    return [Conversation(f"q{n}", 0, 0, length, 1) for n, length in enumerate(lengths)]


@pytest.mark.parametrize("epoch", range(4))
def test_every_conversation_once_per_epoch(epoch):
    conversations = made([(7 * n) % 31 + 2 for n in range(57)])
    found = list(batches(conversations, 40, 3, epoch))
    names = [one.name for batch in found for one in batch]
    assert sorted(names) == sorted(one.name for one in conversations)
    assert max(sum(one.tokens for one in batch) for batch in found) <= 40
    # No batch could take the first of its neighbours too, or there would be many small ones.
    assert len(found) <= 2 * sum(one.tokens for one in conversations) / 40 + 1


def test_a_long_conversation_is_a_batch_of_its_own():
    found = list(batches(made([5, 90, 6]), 20, 0, 0))
    assert ["q1"] in [[one.name for one in batch] for batch in found]


def test_the_order_follows_from_seed_and_epoch():
    conversations = made([(5 * n) % 23 + 2 for n in range(40)])

    def order(seed, epoch):
        return [[one.name for one in batch] for batch in batches(conversations, 30, seed, epoch)]

    assert order(1, 2) == order(1, 2)
    orders = [str(order(seed, epoch)) for seed in (0, 1) for epoch in range(3)]
    assert len(set(orders)) == 6


def test_like_lengths_come_together():
    conversations = made([3, 100] * 20)
    for batch in batches(conversations, 210, 0, 0):
        assert len({one.tokens for one in batch}) == 1 or len(batch) > 2
    mixed = [b for b in batches(conversations, 210, 0, 0) if len({one.tokens for one in b}) > 1]
    assert len(mixed) <= 1
