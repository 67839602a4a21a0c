"""Captured states against transformers' own forward; second calls; damage; full disks."""

import json

import pytest
import torch
from transformers import AutoModelForCausalLM

from specbench.decoding.protocols import Tap
from specbench.errors import PrerequisiteError, SpecbenchError, UsageError
from specbench.models.heads.configs import FINAL
from specbench.models.opened import open_target
from specbench.results.lock import written_alone
from specbench.train.capture import capture as module
from specbench.train.capture.capture import Wanted, capture
from specbench.train.capture.corpus import Corpus
from specbench.train.capture.record import read_record
from specbench.train.capture.shard import tap_name, tap_of
from tests.train.capture.made import some, write_target
from tests.train.data.answering import room_for

pytestmark = pytest.mark.usefixtures("one_thread")
TAPS = [Tap(0, "entering"), Tap(1, "entering"), Tap(0, "leaving")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_target(tmp_path_factory.mktemp("target"))


@pytest.fixture(scope="module")
def opened(folder):
    return open_target({"model": str(folder)}, 1)


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    """Several forwards to a shard, and several shards."""
    monkeypatch.setattr(module, "SHARD_TOKENS", 120)
    monkeypatch.setattr(module, "BATCH_TOKENS", 60)
    monkeypatch.setattr(module, "ROWS", 7)


def never():
    raise AssertionError("the target was opened")


def silent(done, total):
    pass


def wanted(opened, taps=TAPS, dtype=torch.float32):
    return Wanted(opened.loaded.weight_hash, taps, dtype)


def taken(opened, answers, root, **more):
    return capture(lambda: opened, answers, wanted(opened, **more), root, silent)


def test_states_are_those_of_a_plain_forward(folder, opened, tmp_path):
    answers = some(12)
    corpus = Corpus(*taken(opened, answers, tmp_path), TAPS)
    assert len(corpus.conversations) == 12
    plain = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").eval()
    for one in answers:
        batch = corpus.load(corpus.chosen([one.id]))
        ids = torch.tensor([[*one.prompt, *one.answer]])
        with torch.no_grad():
            found = plain(ids, output_hidden_states=True)
        assert batch.ids.tolist() == ids[0].tolist()
        assert (batch.lengths, batch.answers) == ((ids.shape[1],), (len(one.prompt),))
        states = {
            Tap(0, "entering"): found.hidden_states[0],
            Tap(1, "entering"): found.hidden_states[1],
            Tap(0, "leaving"): found.hidden_states[1],
            FINAL: found.hidden_states[2],
        }
        assert batch.states.keys() == states.keys()
        for tap, state in states.items():
            torch.testing.assert_close(batch.states[tap], state[0], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(batch.lse, found.logits[0].logsumexp(1), rtol=1e-5, atol=1e-5)
        assert batch.best.tolist() == found.logits[0].argmax(1).tolist()


def test_logits_without_a_token_do_not_count(tmp_path):
    folder = write_target(tmp_path / "wide")
    model = AutoModelForCausalLM.from_pretrained(folder)
    rows = model.config.vocab_size
    # Rows behind the tokenizer's, louder than all others.
    model.resize_token_embeddings(rows + 5, mean_resizing=False)
    model.get_input_embeddings().weight.data[rows:] = 9.0
    model.save_pretrained(folder)
    opened = open_target({"model": str(folder)}, 1)
    answers = some(3)
    corpus = Corpus(*taken(opened, answers, tmp_path / "captures"), [])
    for one in answers:
        batch = corpus.load(corpus.chosen([one.id]))
        logits = model(batch.ids[None]).logits[0, :, :rows]
        torch.testing.assert_close(batch.lse, logits.logsumexp(1), rtol=1e-5, atol=1e-5)
        assert batch.best.tolist() == logits.argmax(1).tolist()


def test_a_second_call_adds_what_is_missing(opened, tmp_path):
    answers, told = some(9), []
    first, record = taken(opened, answers[:5], tmp_path)
    shards = {path.name: path.stat().st_mtime_ns for path in first.glob("*.safetensors")}
    assert len(shards) == len(record.shards) > 1
    assert all(shard.tokens <= 120 for shard in record.shards)
    again = capture(
        lambda: opened,
        answers,
        wanted(opened),
        tmp_path,
        lambda *moved: told.append(moved),
    )
    missing = sum(len(one.prompt) + len(one.answer) for one in answers[5:])
    assert [total for _, total in told] == [missing] * len(told)
    assert told[-1][0] == missing
    assert list(again[1].answers) == [one.id for one in answers]
    assert all((first / name).stat().st_mtime_ns == at for name, at in shards.items())
    # With nothing missing the target is not opened.
    assert capture(never, answers, wanted(opened), tmp_path, silent)[1] == again[1]
    assert not list(first.glob("*.part"))


def test_what_rest_raises_ends_it_behind_a_shard(opened, tmp_path):
    answers = some(9)

    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        capture(lambda: opened, answers, wanted(opened), tmp_path, silent, stop)
    (folder,) = tmp_path.iterdir()
    assert len(read_record(folder).shards) == 1
    # The same call goes on, one shard at a time.
    with pytest.raises(KeyboardInterrupt):
        capture(lambda: opened, answers, wanted(opened), tmp_path, silent, stop)
    assert len(read_record(folder).shards) == 2


def test_a_folder_with_more_states_serves(opened, tmp_path):
    answers = some(4)
    more, _ = taken(opened, answers, tmp_path)
    fewer, _ = capture(never, answers, wanted(opened, TAPS[:1]), tmp_path, silent)
    assert fewer == more
    # What is added there gets all states of the folder.
    added = some(5)[4:]
    taken(opened, [*answers, *added], tmp_path, taps=TAPS[:1])
    corpus = Corpus(more, read_record(more), TAPS)
    assert set(corpus.load(corpus.chosen([added[0].id])).states) == {FINAL, *TAPS}
    # Other types and other states get a folder of their own.
    other, _ = taken(opened, answers, tmp_path, dtype=torch.bfloat16)
    beside, _ = taken(opened, answers, tmp_path, taps=[Tap(1, "leaving")])
    assert len({more, other, beside}) == 3


def test_stored_in_fewer_bits(opened, tmp_path):
    one = some(1)
    exact = Corpus(*taken(opened, one, tmp_path), TAPS)
    short = Corpus(*taken(opened, one, tmp_path, dtype=torch.bfloat16), TAPS)
    states, stored = (c.load(c.conversations).states[FINAL] for c in (exact, short))
    assert stored.dtype == torch.float32
    assert torch.equal(stored, states.to(torch.bfloat16).float())


@pytest.mark.parametrize("damage", ["changed", "missing", "record"])
def test_damage_is_refused_before_more_is_captured(opened, tmp_path, damage):
    folder, _ = taken(opened, some(4), tmp_path)
    shard = sorted(folder.glob("*.safetensors"))[0]
    if damage == "changed":
        data = bytearray(shard.read_bytes())
        data[-1] ^= 1
        shard.write_bytes(bytes(data))
    elif damage == "missing":
        shard.unlink()
    else:
        (folder / "capture.json").write_text('{"taps": 1}')
    words = {"changed": "has changed since", "missing": "is missing", "record": "is not the record"}
    with pytest.raises(PrerequisiteError, match=words[damage]) as refused:
        capture(never, some(9), wanted(opened), tmp_path, silent)
    assert f"{folder}; it is made again" in str(refused.value)


def test_another_target_or_answer_is_refused(opened, tmp_path):
    answers = some(4)
    folder, _ = taken(opened, answers, tmp_path)
    other = Wanted("0" * 64, TAPS, torch.float32)
    with pytest.raises(UsageError, match="captured with weight_hash") as refused:
        capture(never, answers, other, tmp_path, silent)
    assert "name another data folder" in str(refused.value)
    # The same id, one token more in its prompt and one less in its answer.
    changed = some(4)
    object.__setattr__(changed[2], "prompt", (*changed[2].prompt, changed[2].answer[0]))
    object.__setattr__(changed[2], "answer", changed[2].answer[1:])
    with pytest.raises(UsageError, match="another answer q-02/0"):
        capture(never, changed, wanted(opened), tmp_path, silent)
    assert folder.is_dir()


def test_a_full_disk_keeps_finished_shards(opened, tmp_path):
    answers = some(9)
    folder, record = taken(opened, answers[:4], tmp_path)
    before = json.loads((folder / "capture.json").read_text())
    with room_for(4096), pytest.raises(SpecbenchError, match="could not be written") as refused:
        taken(opened, answers, tmp_path)
    assert "type the same command again; finished shards are kept" in str(refused.value)
    assert type(refused.value) is SpecbenchError
    assert not list(folder.glob("*.part"))
    assert json.loads((folder / "capture.json").read_text()) == before
    # With room again, the rest is made.
    _, whole = taken(opened, answers, tmp_path)
    assert whole.shards[: len(record.shards)] == record.shards
    assert list(whole.answers) == [one.id for one in answers]


def test_a_shard_that_no_record_knows_is_made_again(opened, tmp_path):
    answers = some(9)
    folder, record = taken(opened, answers[:4], tmp_path)
    # Killed between the shard and its record.
    (folder / f"shard-{len(record.shards):05d}.safetensors").write_bytes(b"torn")
    _, whole = taken(opened, answers, tmp_path)
    assert list(whole.answers) == [one.id for one in answers]
    Corpus(folder, whole, TAPS)


def test_two_captures_at_once(opened, tmp_path, monkeypatch):
    answers, refused = some(9), []
    folder, _ = taken(opened, answers[:3], tmp_path)

    def meanwhile():
        with pytest.raises(UsageError, match=r"capture\.json is being written by another process"):
            capture(never, answers[3:], wanted(opened), tmp_path, silent)
        refused.append(True)
        # What is complete needs no lock: there may be many who read.
        assert capture(never, answers[:3], wanted(opened), tmp_path, silent)[0] == folder

    capture(lambda: opened, answers[:6], wanted(opened), tmp_path, silent, meanwhile)
    assert refused
    late = []

    def other(path):
        # Between the look and the lock another call adds a shard.
        if not late:
            late.append(path)
            taken(opened, answers[6:7], tmp_path)
        return written_alone(path)

    monkeypatch.setattr(module, "written_alone", other)
    _, whole = taken(opened, answers, tmp_path)
    assert [name for shard in whole.shards for name in shard.answers] == [a.id for a in answers]
    assert len({shard.file for shard in whole.shards}) == len(whole.shards)
    Corpus(folder, read_record(folder), TAPS)


def test_a_folder_that_cannot_be_locked(opened, tmp_path):
    (tmp_path / "captures").write_text("")
    with pytest.raises(SpecbenchError, match="could not be written") as refused:
        taken(opened, some(1), tmp_path / "captures")
    assert "make room" in refused.value.hint


def test_names_of_states():
    for tap in (*TAPS, FINAL, Tap(26, "leaving")):
        assert tap_of(tap_name(tap)) == tap
