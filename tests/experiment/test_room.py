"""What a run needs of a device before anything loads, by hand for Llama 3.1 8B and 3.2 1B."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
import torch

from specbench.cli.main import call
from specbench.errors import PrerequisiteError
from specbench.experiment import room
from specbench.experiment.load import Flags, load_experiment
from specbench.experiment.need import reckon
from specbench.experiment.prepare import prepare
from specbench.experiment.room import Memory, memory_of, require_room
from specbench.models.attention import flashinfer
from specbench.models.shapes.find import configuration
from tests.made_up_cuda import torch_with
from tests.models.tiny import write_tokenizer

GIB = 2**30
WEIGHTS, ROW = 2 * 8_029_995_008, 131_072  # bfloat16; 32 layers x 2 x 8 heads x 128 x 2 bytes
DRAFT_WEIGHTS = 2 * (16 * 60_817_408 + 128_256 * 2048)  # tied
DRAFT_ROW = 32_768  # 16 layers x 2 x 8 heads x 64 x 2 bytes


def folder(path, shape, **changed):
    """What is found of a model before it loads: configuration and tokenizer, no tensors."""
    path.mkdir()
    (path / "config.json").write_text(json.dumps({**configuration(shape).config, **changed}))
    (path / "model.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
    write_tokenizer(path)
    return str(path)


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """Prepares an experiment on 80 prompts of two tokens ("p0" and so on, some of three)."""
    rows = [json.dumps({"id": f"p{i}", "prompt": f"p{i}"}) + "\n" for i in range(80)]
    (tmp_path / "mine.jsonl").write_text("".join(rows))
    monkeypatch.chdir(tmp_path)

    def ask(*settings, shape="llama-3.1-8b", **flags):
        if not (tmp_path / shape).exists():
            folder(tmp_path / shape, shape)
        flags = {"suites": ("mine.jsonl",), "drafter": "ngram", **flags}
        given = ("target.dtype=bfloat16", *settings)
        found = Flags(engine="native", target=str(tmp_path / shape), **flags)
        return prepare(load_experiment(None, found, given))

    return ask


@pytest.fixture
def device(monkeypatch):
    """A device with so much memory in GiB."""

    def of(total, free=None, lazy=False):
        memory = Memory(
            "cuda:0 (a made-up GPU)", int((free or total) * GIB), int(total * GIB), lazy
        )
        monkeypatch.setattr(room, "memory_of", lambda torch, device: memory)

    return of


def test_weights_and_keys_of_a_target(asked):
    need = reckon(asked(concurrency=(64,), max_new_tokens=1000)).need
    # 3 tokens of "p10", 1000 of its answer, one for what is drawn last
    assert (need.requests, need.least, need.answer) == (64, 1004, 1000)
    assert need.sure == WEIGHTS + 64 * 1024 * ROW
    assert need.workspace == 0


def test_no_more_requests_than_prompts(asked):
    assert reckon(asked(concurrency=(100,))).need.requests == 80


def test_answers_end_with_the_context(asked):
    need = reckon(asked("target.context=600", max_new_tokens=1000)).need
    assert (need.least, need.answer) == (601, 597)
    assert need.about <= 600 + 1 + 5  # and the nodes of a draft


def test_a_draft_model_and_captured_forwards(asked, tmp_path):
    draft = folder(tmp_path / "draft", "llama-3.2-1b")
    prepared = asked("target.graphs=true", drafter="draft_model", draft=draft, concurrency=(4,))
    found = reckon(prepared)
    assert found.left_out == ()
    # 3 + 128 + 1 rows in one step of 256; five slabs, one of them of nobody
    assert found.need.sure == WEIGHTS + DRAFT_WEIGHTS + 5 * 256 * (ROW + DRAFT_ROW)


def test_a_quantised_draft_and_target(asked, tmp_path):
    draft = folder(tmp_path / "draft", "llama-3.2-1b")
    prepared = asked(
        *("target.quant=int8", "target.quant_head=true", "arm.draft_model.options.quant=int4"),
        drafter="draft_model",
        draft=draft,
    )
    target, small = (one.weights for one in reckon(prepared).need.held)
    layers, ends = 32 * 218_103_808, 128_256 * 4096
    assert target == layers + 2 * ends + ends
    assert small == 16 * 60_817_408 / 2 + 2 * 128_256 * 2048


def test_a_share_of_a_target(asked):
    need = reckon(asked("target.tensor_parallel=4")).need
    assert need.sure == (WEIGHTS + 256 * ROW) / 4
    assert need.parts()[0][0].startswith("weights of 1/4 of ")


def test_what_cannot_be_read_is_left_out_and_said(asked, device):
    device(40)
    prepared = asked(drafter="eagle3", draft="untrained")
    assert reckon(prepared).left_out == ("what arm eagle3 drafts with",)
    assert "  not counted: what arm eagle3 drafts with" in list(require_room(prepared).lines())


def test_a_target_that_is_not_known_is_not_judged(asked, tmp_path):
    folder(tmp_path / "other", "llama-3.1-8b", model_type="of-tomorrow")
    assert reckon(asked(shape="other")) is None
    assert require_room(asked(shape="other")) is None


def test_too_little_memory_lists_the_parts_and_what_would_fit(asked, device):
    device(20)
    with pytest.raises(PrerequisiteError) as caught:
        require_room(asked(concurrency=(64,), max_new_tokens=1000))
    said, fix = caught.value.message, caught.value.hint
    assert caught.value.exit_code == 3
    assert "too little memory on cuda:0 (a made-up GPU): at least 23.0 GiB are needed" in said
    assert "it has 20.0 GiB" in said
    assert "llama-3.1-8b 15.0 GiB, KV of 64 x 1024 tokens 8.0 GiB" in said
    # 5,414,846,464 bytes are left: 40 requests of 1024 rows, or 512 rows for each of 64
    assert "--concurrency 40, or --max-new-tokens 488" in fix
    assert "target.quant=int8 (16.5 GiB)" in fix
    assert "--set target.dtype=bfloat16," not in fix  # it is in 16 bits already


def test_the_advice_is_right(asked, device):
    device(20)
    assert require_room(asked(concurrency=(40,), max_new_tokens=1000)) is not None
    assert require_room(asked(concurrency=(64,), max_new_tokens=488)) is not None
    with pytest.raises(PrerequisiteError):
        require_room(asked(concurrency=(41,), max_new_tokens=1000))


def test_weights_alone_that_do_not_fit(asked, device):
    device(3)
    with pytest.raises(PrerequisiteError) as caught:
        require_room(asked("target.dtype=float32"))
    assert caught.value.hint.startswith("it does not fit in fewer bits either")
    device(10)
    with pytest.raises(PrerequisiteError) as caught:
        require_room(asked("target.dtype=float32"))
    assert "concurrency" not in caught.value.hint
    assert "--set target.dtype=bfloat16 --set target.quant=int4 (5.2 GiB)" in caught.value.hint


def test_a_pool_that_is_never_filled_is_not_refused_on_a_cpu(asked, device):
    device(20, lazy=True)
    found = require_room(asked(concurrency=(64,), max_new_tokens=1000))
    assert any("warning: this may not fit" in line for line in found.lines())
    device(10, lazy=True)
    with pytest.raises(PrerequisiteError, match=r"at least 15\.0 GiB are needed"):
        require_room(asked())


def test_the_plan_warns_of_memory_that_others_hold(asked, device):
    device(40, free=20)
    lines = list(require_room(asked(concurrency=(64,), max_new_tokens=1000)).lines())
    # 3 + 32 + 1000 + 1 + 5 rows at most: 1280 with whole steps, 167,772,160 bytes a request.
    # Of 5,414,846,464 bytes beside the weights, logits take 3 x 4 x 64 x 6 x 128,256.
    assert lines[-1] == "  warning: this may not fit into what is free; --concurrency 28 would fit"


def test_the_memory_of_a_gpu_is_what_the_driver_says(monkeypatch):
    torch_ = torch_with(("NVIDIA H200", (9, 0), 100.0, 140.0))
    torch_.cuda.mem_get_info = lambda device: (100 * GIB, 140 * GIB)
    torch_.cuda.get_device_name = lambda device: "NVIDIA H200"
    found = memory_of(torch_, torch.device("cuda:1"))
    assert found == Memory("cuda:1 (NVIDIA H200)", 100 * GIB, 140 * GIB)
    assert memory_of(torch_, torch.device("meta")) is None


def test_heads_without_kernels_are_refused_before_anything_loads(asked, device, monkeypatch):
    device(100)
    monkeypatch.setattr(flashinfer, "require_flashinfer", lambda device: SimpleNamespace())
    asked_for = ("target.attention=flashinfer",)
    found = require_room(asked(*asked_for))
    assert found.reckoned.need.workspace == 128 * 2**20
    with pytest.raises(PrerequisiteError, match="no kernels for float32"):
        require_room(asked(*asked_for, "target.dtype=float32"))
    with pytest.raises(PrerequisiteError, match="these are of 128, 192"):
        require_room(asked(*asked_for, shape="deepseek-v3"))


@pytest.mark.parametrize(
    ("settings", "code", "told"),
    [
        (["target.graphs=true"], 3, "target.graphs captures CUDA graphs, and the target is on cpu"),
        (
            ["target.graphs=true", "target.tensor_parallel=2"],
            2,
            "target.graphs is for a target in one process",
        ),
    ],
)
def test_what_the_device_has_not_and_what_excludes_each_other_end_a_plan(
    asked, capsys, settings, code, told
):
    model = asked().experiment.target.model
    words = ["run", "--target", model, "--suite", "mine.jsonl", "--drafter", "ngram", "--plan"]
    for setting in settings:
        words += ["--set", setting]
    assert call(words) == code
    assert told in capsys.readouterr().err


def test_a_device_that_is_not_here_ends_a_plan(asked, capsys):
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    prepared = asked()
    words = ["run", "--target", prepared.experiment.target.model, "--suite", "mine.jsonl"]
    assert call([*words, "--drafter", "ngram", "--plan", "--set", "target.device=cuda"]) == 3
    assert "error: device cuda cannot be used here" in capsys.readouterr().err


def test_the_plan_shows_memory(asked, device, capsys):
    device(40)
    model = asked().experiment.target.model
    words = ["run", "--target", model, "--suite", "mine.jsonl", "--drafter", "ngram", "--plan"]
    assert call([*words, "--set", "target.dtype=bfloat16"]) == 0
    shown = capsys.readouterr().out
    assert "memory of cuda:0 (a made-up GPU): at least 15.0 GiB" in shown
    assert call([*words, "--set", "target.dtype=bfloat16", "--json"]) == 0
    row = json.loads(capsys.readouterr().out)[0]
    assert row["memory_least"] == WEIGHTS + 256 * ROW
    assert row["memory_total"] == 40 * GIB
