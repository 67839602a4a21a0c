"""llama.cpp: command lines, the file behind a name, the child's settings, a real small server."""

from __future__ import annotations

import json
import shlex
import sys
import urllib.request

import pytest

from specbench.core.arm import ArmSpec
from specbench.engines.servers import llamacpp_child
from specbench.engines.servers.gguf_of import gguf_file
from specbench.engines.servers.llamacpp import DRAFTERS, LAUNCHER, RULES, usable_cores
from specbench.engines.servers.protocol import ServerPlan
from specbench.errors import PrerequisiteError, UsageError
from specbench.models.folder import CONVERTER_VERSION
from tests.engines.servers.llamacpp_runs import ONE_THREAD, complete, drafted, serve

CHILD = "/py -m specbench.engines.servers.llamacpp_child"
GOLDEN = {
    "ngram": (
        ArmSpec("a", "ngram", 5, "target_match"),
        "--spec-type ngram-simple --draft-max 5 --ngram-size 3",
    ),
    "ngram, rejection": (
        ArmSpec("a", "ngram", 5, "rejection"),
        "--spec-type ngram-simple --draft-max 5 --ngram-size 3",
    ),
    "ngram_map_k": (
        ArmSpec(
            "a",
            "ngram_map_k",
            5,
            "target_match",
            drafter_options={"min_n": 2, "max_n": 2, "min_hits": 4},
        ),
        "--spec-type ngram-map-k --draft-max 5 --ngram-size 2 --ngram-min-hits 4",
    ),
    "ngram_map_k4v": (
        ArmSpec("a", "ngram_map_k4v", 5, "target_match", drafter_options={"max_n": 8}),
        "--spec-type ngram-map-k4v --draft-max 5 --ngram-size 8",
    ),
    "ngram_mod": (
        ArmSpec("a", "ngram_mod", 64, "target_match", drafter_options={"min_n": 24, "min_k": 48}),
        "--spec-type ngram-mod --draft-max 64 --draft-min 48 --ngram-size 24",
    ),
    "ngram_cache": (
        ArmSpec("a", "ngram_cache", 5, "target_match"),
        "--spec-type ngram-cache --draft-max 5",
    ),
    "draft_model": (
        ArmSpec("a", "draft_model", 3, "rejection", drafter_options={"model": "FILE"}),
        "--spec-type draft-simple --draft-max 3 --draft-model FILE --draft-probabilistic",
    ),
    "eagle3": (
        ArmSpec("a", "eagle3", 3, "target_match", drafter_options={"model": "FILE", "p_min": 0.5}),
        "--spec-type draft-eagle3 --draft-max 3 --draft-model FILE --draft-p-min 0.5",
    ),
    "mtp": (
        ArmSpec("a", "mtp", 2, "synthetic", rule_options={"rate": 0.5}),
        "--spec-type draft-mtp --draft-max 2 --synth-rates 0.5,0.25",
    ),
    "synthetic length": (
        ArmSpec("a", "ngram", 2, "synthetic", rule_options={"length": 1.5}),
        "--spec-type ngram-simple --draft-max 2 --ngram-size 3 --synth-length 1.5",
    ),
}


@pytest.fixture
def empty(tmp_path):
    path = tmp_path / "m.gguf"
    path.touch()
    return str(path)


def with_file(arm, file):
    options = {k: file if v == "FILE" else v for k, v in arm.drafter_options.items()}
    return ArmSpec(
        arm.name,
        arm.drafter,
        arm.k,
        arm.rule,
        drafter_options=options,
        rule_options=arm.rule_options,
        server={"python": "/py"},
    )


@pytest.mark.parametrize("name", GOLDEN)
def test_speculative(name, empty):
    arm, rest = GOLDEN[name]
    arm = with_file(arm, empty)
    LAUNCHER.check(arm)
    front = (
        f"{CHILD} --model {empty} --alias m --host 127.0.0.1 --port 8123 --parallel 4"
        f" --ctx-size 512 --kv f32 --threads {usable_cores()}"
    )
    asked = ServerPlan(arm, empty, 8123, dtype="float32", context=512, concurrency=4)
    command = LAUNCHER.command(asked)
    assert command == shlex.split(f"{front} {rest.replace('FILE', empty)}")
    llamacpp_child.parser().parse_args(command[3:])


def test_every_drafter_and_rule_has_a_golden_line():
    arms = [arm for arm, _ in GOLDEN.values()]
    assert {arm.drafter for arm in arms} == set(DRAFTERS) - {"none"}
    assert {arm.rule for arm in arms} == set(RULES)


def test_plain_and_a_command_of_its_own(empty):
    asked = ServerPlan(ArmSpec("plain"), empty, 8123, prefix_cache=True)
    assert LAUNCHER.command(asked) == shlex.split(
        f"{sys.executable} -m specbench.engines.servers.llamacpp_child --model {empty}"
        f" --alias m --host 127.0.0.1 --port 8123 --parallel 1 --ctx-size 0 --kv f16"
        f" --threads {usable_cores()} --cache-prompt"
    )
    own = ArmSpec("a", "unknown", server={"command": ["llama-server", "-m", "{target}", "{port}"]})
    LAUNCHER.check(own)
    assert LAUNCHER.command(ServerPlan(own, empty, 8123)) == ["llama-server", "-m", empty, "8123"]


@pytest.mark.parametrize(
    ("arm", "message"),
    [
        (ArmSpec("a", "suffix", 3, "target_match"), r"llama\.cpp has no drafter 'suffix'"),
        (ArmSpec("a", "ngram", 3, "block"), "no rule 'block' for drafter ngram"),
        (
            ArmSpec("a", "ngram", 3, "target_match", drafter_options={"min_n": 1, "max_n": 3}),
            "one length",
        ),
        (ArmSpec("a", "ngram", 3, "synthetic", rule_options={"rates": [1]}), "give 3 numbers"),
    ],
)
def test_what_it_cannot_do_is_refused(arm, message):
    with pytest.raises(UsageError, match=message):
        LAUNCHER.check(arm)


def test_a_draft_model_that_is_not_there_is_refused_early():
    arm = ArmSpec("a", "draft_model", 3, drafter_options={"model": "/no/such.gguf"})
    with pytest.raises(PrerequisiteError, match="no GGUF file"):
        LAUNCHER.check(arm)


def test_the_file_that_a_converted_folder_came_from(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECBENCH_CACHE", str(tmp_path))
    folder = tmp_path / "models" / "m"
    folder.mkdir(parents=True)
    (tmp_path / "downloads").mkdir()
    with pytest.raises(PrerequisiteError, match=r"reads GGUF files(.|\n)*specbench models export"):
        gguf_file(str(folder))
    record = {"converter_version": CONVERTER_VERSION, "source_file": "m.Q4_1.gguf"}
    (folder / "specbench.json").write_text(json.dumps(record))
    with pytest.raises(PrerequisiteError, match="reads GGUF files"):
        gguf_file(str(folder))
    source = tmp_path / "downloads" / "m.Q4_1.gguf"
    source.touch()
    assert gguf_file(str(folder)) == source
    assert gguf_file(str(source)) == source


def test_settings_of_the_child():
    x = pytest.importorskip("xllamacpp")
    options = llamacpp_child.parser().parse_args(
        shlex.split(
            "--model t.gguf --port 8123 --parallel 4 --ctx-size 512 --kv f32 --threads 2"
            " --spec-type draft-simple --draft-max 5 --draft-min 1 --draft-model d.gguf"
            " --draft-p-min 0.25 --draft-probabilistic --synth-rates 1,0.5,0.5,0,0"
        )
    )
    params = llamacpp_child.parameters(options, x)
    assert (params.model.path, params.port, params.hostnames) == ("t.gguf", 8123, ["127.0.0.1"])
    assert (params.n_parallel, params.n_ctx) == (4, 2048)
    assert params.cache_type_k == params.cache_type_v == x.ggml_type.GGML_TYPE_F32
    disabled = x.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    assert params.flash_attn_type == disabled
    assert params.cpuparams.n_threads == params.cpuparams_batch.n_threads == 2
    assert not params.cache_prompt
    assert not params.ctx_shift
    assert not params.fit_params
    assert params.cache_ram_mib == 0
    assert params.endpoint_metrics
    speculative = params.speculative
    draft = speculative.draft
    assert speculative.types == [x.common_speculative_type.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE]
    assert (draft.n_max, draft.n_min, draft.p_min) == (5, 1, 0.25)
    assert draft.probabilistic
    assert draft.mparams.path == "d.gguf"
    assert draft.cache_type_k == draft.cache_type_v == x.ggml_type.GGML_TYPE_F32
    assert draft.cpuparams.n_threads == 2
    assert speculative.synth_rates == [1, 0.5, 0.5, 0, 0]


def test_the_models_own_context_is_for_each_request(tiny_gguf_file, tiny_target, tmp_path):
    x = pytest.importorskip("xllamacpp")
    whole = json.loads((tiny_target / "config.json").read_text())["max_position_embeddings"]

    def context(words, model=tiny_gguf_file):
        line = ["--model", str(model), "--port", "1", "--threads", "1", *words.split()]
        return llamacpp_child.parameters(llamacpp_child.parser().parse_args(line), x).n_ctx

    assert context("--parallel 3") == 3 * whole
    assert context("--parallel 3 --ctx-size 32") == 96
    # llama.cpp reads it itself where nothing is to be multiplied.
    assert context("--parallel 1", tmp_path / "absent.gguf") == 0


def test_a_real_server_gives_every_slot_the_whole_context(tiny_gguf_file, tiny_target):
    whole = json.loads((tiny_target / "config.json").read_text())["max_position_embeddings"]
    with serve(ArmSpec("plain", server=ONE_THREAD), tiny_gguf_file, concurrency=3) as running:
        with urllib.request.urlopen(f"{running.url}/props", timeout=10) as props:
            assert json.loads(props.read())["default_generation_settings"]["n_ctx"] == whole
        with urllib.request.urlopen(f"{running.url}/slots", timeout=10) as slots:
            assert [slot["n_ctx"] for slot in json.loads(slots.read())] == [whole] * 3


@pytest.mark.parametrize(
    ("kind", "place", "values"),
    [
        ("ngram-simple", "ngram_simple", {"size_n": 4, "size_m": 5, "min_hits": 2}),
        ("ngram-map-k", "ngram_map_k", {"size_n": 4, "size_m": 5, "min_hits": 2}),
        ("ngram-map-k4v", "ngram_map_k4v", {"size_n": 4, "size_m": 5, "min_hits": 2}),
        ("ngram-mod", "ngram_mod", {"n_match": 4, "n_max": 5, "n_min": 0}),
    ],
)
def test_lookups_of_the_child(kind, place, values):
    x = pytest.importorskip("xllamacpp")
    line = f"--model t --port 1 --threads 1 --spec-type {kind} --draft-max 5 --ngram-size 4"
    options = llamacpp_child.parser().parse_args([*line.split(), "--ngram-min-hits", "2"])
    lookup = getattr(llamacpp_child.parameters(options, x).speculative, place)
    assert {name: getattr(lookup, name) for name in values} == values


def test_a_file_that_is_no_model(tmp_path):
    pytest.importorskip("xllamacpp")
    (tmp_path / "m.gguf").write_text("not a model")
    with pytest.raises(PrerequisiteError, match=r"exit code 1(.|\n)*cannot serve"):
        serve(ArmSpec("a"), tmp_path / "m.gguf")


def test_a_real_server(tiny_gguf_file):
    arm = ArmSpec("plain", server=ONE_THREAD)
    with serve(arm, tiny_gguf_file, context=128, concurrency=2) as running:
        assert running.facts["version"].startswith("20")
        answer = complete(running.url, [5, 17, 40, 99], 6)
        assert (answer["tokens_evaluated"], answer["tokens_predicted"]) == (4, 6)
        assert answer["stop_type"] == "limit"
        assert drafted([answer]) == [(0, 0)]
        with urllib.request.urlopen(f"{running.url}/props", timeout=10) as props:
            facts = json.loads(props.read())
        assert facts["total_slots"] == 2
        assert facts["default_generation_settings"]["n_ctx"] == 128
        with urllib.request.urlopen(f"{running.url}/metrics", timeout=10) as metrics:
            assert "llamacpp:tokens_predicted_total 6" in metrics.read().decode()
    assert running.ended() == "the server's process ended (exit code 0)"


def test_synthetic_acceptance_keeps_what_the_rates_say(tiny_gguf_file):
    options = {"rates": [1.0, 1.0, 0.0]}
    arm = ArmSpec(
        "a",
        "draft_model",
        3,
        "synthetic",
        drafter_options={"model": str(tiny_gguf_file)},
        rule_options=options,
        server=ONE_THREAD,
    )
    with serve(arm, tiny_gguf_file, context=96) as running:
        answer = complete(running.url, [5, 17, 40, 99], 30, ignore_eos=True)
    # One token from the prefill; then 3 drafts of which 2 are kept, until fewer than 4 are left.
    left, expected = 29, [0, 0]
    while left:
        drafts = min(3, left - 1)
        kept = min(2, drafts)
        expected = [expected[0] + drafts, expected[1] + kept]
        left -= kept + 1
    assert drafted([answer]) == [tuple(expected)]
