"""`specbench models inspect` and `new-head` on drafting heads."""

from __future__ import annotations

import json

import pytest
import torch
from click.testing import CliRunner

from specbench.cli import new_head
from specbench.cli.models import models
from specbench.errors import PrerequisiteError, UsageError
from specbench.models.heads.configs import TargetShape
from specbench.models.heads.files import open_checkpoint
from specbench.models.heads.read import read_head
from specbench.models.heads.tensors import load_tensors
from specbench.models.heads.write import LAYOUTS
from specbench.models.locate import DEMO_MODEL, locate
from tests.models.heads import fixtures as made
from tests.models.heads import mtp_fixtures


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch, request):
    """A cache of its own per test; tests of the real model keep the real one."""
    if request.node.get_closest_marker("model") is None:
        monkeypatch.setenv("SPECBENCH_CACHE", str(tmp_path / "cache"))


def inspect(*arguments):
    done = CliRunner().invoke(models, ["inspect", *map(str, arguments)])
    return done, dict(reversed([_pair(line) for line in done.stdout.splitlines()]))


def _pair(line):
    return line[:13].strip(), line[13:].strip()


@pytest.fixture
def target(tmp_path):
    """A folder with the configuration of the fixtures' target."""
    folder = tmp_path / "target"
    config = made.llama_config(num_hidden_layers=made.LAYERS)
    made.write(folder, config, made.small_model(), "model.safetensors")
    return folder


@pytest.mark.parametrize(
    ("write", "head", "holds", "load"),
    [
        (made.eagle1, "family eagle1, layout official", "1 layer, hidden size 32", "eagle1"),
        (made.eagle3, "family eagle3, layout official", "drafts 48 of 128 tokens", "eagle3"),
        (made.eagle3_specforge, "family eagle3, layout specforge", "4 heads of 16", "eagle3"),
        (made.medusa_v1, "family medusa, layout v1", "5 heads of 1 block", "medusa"),
        (made.medusa_v2, "family medusa, layout v2", "no projection", "medusa"),
        (made.medusa_vllm, "family medusa, layout vllm", "drafts 48 of 128", "medusa"),
        (mtp_fixtures.speculators, "family mtp, layout speculators", "recycled post-norm", "mtp"),
    ],
)
def test_a_head_by_its_folder(tmp_path, write, head, holds, load):
    write(tmp_path / "head")
    done, lines = inspect(tmp_path / "head")
    assert done.exit_code == 0, done.output
    assert lines["head"] == head
    assert holds in lines["holds"]
    assert lines["load as"] == f'drafter = "{load}", options = {{ model = "{tmp_path / "head"}" }}'
    assert "architecture" not in lines


def test_oddities_are_told(tmp_path):
    made.medusa_v1(tmp_path / "head")
    done, _ = inspect(tmp_path / "head")
    assert "config.json says 2 heads, the file holds 5" in done.stdout


def test_a_model_with_a_head_is_both(tmp_path):
    mtp_fixtures.nextn(tmp_path / "model", fp8=True)
    done, lines = inspect(tmp_path / "model")
    assert done.exit_code == 0, done.output
    assert lines["architecture"] == "DeepseekV3ForCausalLM"
    assert lines["head"] == "family mtp, layout nextn"
    assert lines["load as"] == 'drafter = "mtp"'


@pytest.mark.parametrize(
    ("config", "tensors", "kind", "where"),
    [
        ({"architectures": ["DFlashDraftModel"]}, {"fc.weight": 1}, "dflash", "vLLM >= 0.19"),
        ({"speculators_model_type": "dflash"}, {"fc.weight": 1}, "dflash", "vLLM >= 0.19"),
        ({"architectures": ["DFlash2DraftModel"]}, {"fc.weight": 1}, "dflash2", "vLLM >= 0.28"),
        ({"speculators_model_type": "dspark"}, {"markov.weight": 1}, "dspark", "vLLM >= 0.26"),
        ({"architectures": ["PEagleDraftModel"]}, {"fc.weight": 1}, "peagle", "vLLM >= 0.16"),
        ({"speculators_model_type": "peagle"}, {"fc.weight": 1}, "peagle", "vLLM >= 0.16"),
        ({"pard_token": 5}, {"model.layers.0.a": 1}, "pard", "vLLM >= 0.16"),
        ({"hydra_num_heads": 4}, {"hydra_mlp.0.a": 1}, "hydra", "its authors' code"),
        ({"speculators_model_type": "novel"}, {"a.weight": 1}, "speculators", "vLLM"),
    ],
)
def test_what_only_servers_run(tmp_path, target, config, tensors, kind, where):
    stored = {name: torch.zeros(2) for name in tensors}
    made.write(tmp_path / "head", config, stored, "model.safetensors")
    done, lines = inspect(tmp_path / "head")
    assert done.exit_code == 0, done.output
    assert lines["head"].endswith(f"({kind}), not run natively")
    assert where in lines["runs on"]
    assert "load as" not in lines
    done, lines = inspect(tmp_path / "head", "--target", target)
    assert isinstance(done.exception, UsageError)
    assert lines["head"].endswith("not run natively")
    assert "fits" not in lines


def test_a_head_that_fits(tmp_path, target):
    made.eagle3(tmp_path / "head")
    done, lines = inspect(tmp_path / "head", "--target", target)
    assert done.exit_code == 0, done.output
    assert lines["reads"].endswith("entering 2, entering 4, entering 5")
    assert lines["fits"] == f"{target}: hidden size, vocabulary and layers agree"


def test_without_a_target_the_layers_are_a_rule(tmp_path):
    made.eagle3(tmp_path / "head")
    _, lines = inspect(tmp_path / "head")
    assert lines["reads"].endswith("entering 2, entering L // 2, entering L - 3 of L layers")
    assert "fits" not in lines


def test_a_head_for_another_target_fails_with_both_numbers(tmp_path, target):
    config = json.loads((target / "config.json").read_text()) | {"vocab_size": 200}
    (target / "config.json").write_text(json.dumps(config))
    made.eagle3(tmp_path / "head")
    done, lines = inspect(tmp_path / "head", "--target", target)
    assert isinstance(done.exception, PrerequisiteError)
    assert lines["problem"] == done.exception.message
    assert "128 tokens, the target 200" in lines["problem"]


def test_an_unknown_tensor_is_told_and_fails(tmp_path):
    tensors = made.eagle3_tensors() | {"midlayer.self_attn.q_norm.weight": made.noise(16)}
    made.write(tmp_path / "head", made.llama_config(), tensors, "model.safetensors")
    done, lines = inspect(tmp_path / "head")
    assert isinstance(done.exception, PrerequisiteError)
    assert "q_norm" in lines["problem"]


def test_a_target_for_what_is_no_head(tmp_path, target):
    done, lines = inspect(target, "--target", target)
    assert isinstance(done.exception, UsageError)
    assert "fits" not in lines


def test_a_target_that_is_not_on_this_disk(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    made.eagle3(tmp_path / "head")
    done, _ = inspect(tmp_path / "head", "--target", "org/not-cached")
    assert isinstance(done.exception, PrerequisiteError)
    assert "org/not-cached is not on this disk" in done.exception.message
    assert done.exception.hint == "type: specbench models fetch org/not-cached"


def test_a_target_in_a_gguf_file(tmp_path):
    made.eagle3(tmp_path / "head")
    (tmp_path / "target.gguf").touch()
    done, _ = inspect(tmp_path / "head", "--target", tmp_path / "target.gguf")
    assert isinstance(done.exception, UsageError)
    assert "is a GGUF file" in done.exception.message


@pytest.mark.parametrize("offline", ["0", "1"])
def test_a_head_that_is_not_on_this_disk(monkeypatch, offline):
    monkeypatch.setenv("HF_HUB_OFFLINE", offline)
    done, _ = inspect("org/not-cached")
    assert isinstance(done.exception, PrerequisiteError)
    assert "models fetch org/not-cached" in done.exception.hint
    assert "models fetch --head org/not-cached" in done.exception.hint


def test_a_head_that_cannot_be_laid_out_does_not_fit(tmp_path, target):
    tensors = made.eagle3_tensors()
    tensors["midlayer.self_attn.k_proj.weight"] = made.noise(32, 32)
    made.write(tmp_path / "head", made.llama_config(), tensors, "model.safetensors")
    done, lines = inspect(tmp_path / "head", "--target", target)
    assert isinstance(done.exception, PrerequisiteError)
    assert "k_proj.weight is [32, 32], wanted [32, 64]" in lines["problem"]
    assert "fits" not in lines


def test_of_several_modules_the_first_is_used(tmp_path):
    stored = mtp_fixtures.nextn(tmp_path / "one", copies="none")
    config = json.loads((tmp_path / "one" / "config.json").read_text())
    first, second = (f"model.layers.{made.LAYERS + i}." for i in (0, 1))
    more = {name.replace(first, second): tensor + 1 for name, tensor in stored.items()}
    made.write(tmp_path / "two", config, made.small_model() | stored | more, "model.safetensors")
    done, lines = inspect(tmp_path / "two")
    assert done.exit_code == 0, done.output
    assert lines["holds"].startswith("2 modules (only the first is used) with deepseek's")
    assert "2 modules; only the first is read, and it is used at every step" in done.stdout


def test_qwen_next_names_its_server(tmp_path):
    mtp_fixtures.qwen_next(tmp_path / "model")
    done, lines = inspect(tmp_path / "model")
    assert done.exit_code == 0, done.output
    assert lines["head"].endswith("(qwen_mtp), not run natively")
    assert lines["runs on"] == "vLLM or SGLang as method mtp"
    assert lines["read as"] == "family mtp, layout qwen"
    assert lines["holds"].startswith("1 module with qwen3_next's switches: embedding first")
    assert lines["stored"].startswith("13 tensors, ")
    assert "1 + their weight" in lines["odd"]
    assert "load as" not in lines


def test_as_json(tmp_path):
    made.eagle3_specforge(tmp_path / "head")
    done, _ = inspect(tmp_path / "head", "--json")
    drafting = json.loads(done.stdout)["drafting"]
    assert drafting["contents"] == "head"
    (head,) = drafting["native"]
    assert (head["family"], head["layout"], head["problem"]) == ("eagle3", "specforge", None)
    assert head["fields"]["draft_vocabulary"] == 48
    assert head["taps"] == ["leaving 1", "leaving 3", "leaving 4"]


def begin(target, *arguments):
    return CliRunner().invoke(models, ["new-head", str(target), *map(str, arguments)])


@pytest.mark.parametrize(
    ("family", "more"),
    [
        ("eagle1", ()),
        ("eagle1", ("--layout", "speculators")),
        ("eagle1", ("--draft-vocab", "48")),
        ("eagle3", ()),
        ("eagle3", ("--layout", "specforge", "--draft-vocab", "48")),
        ("eagle3", ("--layout", "speculators", "--draft-vocab", "48")),
        ("medusa", ()),
        ("medusa", ("--layout", "v1", "--heads", "2")),
        ("medusa", ("--layout", "vllm")),
        ("medusa", ("--draft-vocab", "48")),
        ("medusa", ("--layout", "vllm", "--draft-vocab", "48")),
        ("mtp", ()),
        ("mtp", ("--draft-vocab", "48")),
        ("mtp", ("--layout", "mimo")),
        ("mtp", ("--layout", "speculators")),
    ],
)
def test_new_heads_fit_their_target(tmp_path, target, family, more):
    folder = tmp_path / "head"
    done = begin(target, "--family", family, "--out", folder, *more)
    assert done.exit_code == 0, done.output
    assert done.stdout.strip() == str(folder)
    assert "untrained: accepts little" in done.stderr
    shown, _ = inspect(folder, "--target", target)
    assert shown.exit_code == 0, shown.output
    head = read_head(
        locate(str(folder)), families=(family,), target=made.TARGET, dtype="float32", arm="a"
    )
    assert head.family == family
    assert head.config.draft_vocabulary == (48 if "--draft-vocab" in more else 128)
    assert all(bool(t.isfinite().all()) for t in head.tensors.values() if t.is_floating_point())


def test_new_heads_start_from_the_target(tmp_path, target):
    weights = made.small_model()
    begin(target, "--family", "mtp", "--out", tmp_path / "mtp")
    begin(target, "--family", "medusa", "--out", tmp_path / "medusa")
    few = ("--draft-vocab", "20", "--layout", "vllm")
    begin(target, "--family", "medusa", *few, "--out", tmp_path / "vllm")
    found = {
        name: read_head(
            locate(str(tmp_path / name)), families=(family,), target=made.TARGET, dtype="float32"
        ).tensors
        for name, family in (("mtp", "mtp"), ("medusa", "medusa"), ("vllm", "medusa"))
    }
    norm = weights["model.norm.weight"].bfloat16().float()
    assert torch.equal(found["mtp"]["norm.weight"], norm)
    # Embedding first: what passes the target's hidden state on is the second half.
    size = len(norm)
    assert torch.equal(found["mtp"]["eh_proj.weight"][:, size:], torch.eye(size))
    assert not any(bool(t.any()) for t in found["medusa"].values())
    # No vocabulary file names added tokens, so the first ids are drafted.
    rows = found["vllm"]["heads.1.projection.weight"]
    assert torch.equal(rows, weights["lm_head.weight"][:20].bfloat16().float())


@pytest.mark.parametrize("family", ["eagle1", "eagle3", "medusa", "mtp"])
def test_a_head_of_some_tokens_says_whose_rows_it_projects_by(tmp_path, target, family):
    begin(target, "--family", family, "--draft-vocab", "48", "--out", tmp_path / "head")
    done, lines = inspect(tmp_path / "head", "--target", target)
    assert done.exit_code == 0, done.output
    assert "drafts 48 of 128 tokens" in lines["holds"]
    assert lines["holds"].endswith("projects by the target's rows of these tokens")
    stored = open_checkpoint(tmp_path / "head").files
    assert {"d2t", "t2d"} <= stored.keys()
    assert not [name for name in stored if "head.weight" in name or "lm_head" in name]
    done, _ = inspect(tmp_path / "head", "--json")
    (head,) = json.loads(done.stdout)["drafting"]["native"]
    assert (head["projection"], head["fields"]["draft_vocabulary"]) == ("rows", 48)


def test_added_tokens_are_drafted_first(tmp_path, target):
    added = {"added_tokens": [{"id": 120}, {"id": 127}, {"id": 500}]}
    (target / "tokenizer.json").write_text(json.dumps(added))
    begin(target, "--family", "eagle3", "--draft-vocab", "5", "--out", tmp_path / "head")
    stored = load_tensors(open_checkpoint(tmp_path / "head"), ["d2t"])["d2t"]
    assert (stored + torch.arange(5)).tolist() == [0, 1, 2, 120, 127]


def test_seeds(tmp_path, target):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        begin(target, "--family", "eagle1", "--seed", seed, "--out", tmp_path / name)
    files = [(tmp_path / n / "model.safetensors").read_bytes() for n in "abc"]
    assert files[0] == files[1] != files[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--family", "eagle1", "--draft-vocab", "0"), "0 tokens, the target has 128"),
        (("--family", "mtp", "--draft-vocab", "129"), "129 tokens, the target has 128"),
        (("--family", "mtp", "--heads", "2"), "2 heads of family mtp"),
        (("--family", "medusa", "--layout", "v3"), "no layout 'v3'"),
    ],
)
def test_options_that_do_not_apply(tmp_path, target, arguments, message):
    done = begin(target, *arguments, "--out", tmp_path / "head")
    assert isinstance(done.exception, UsageError)
    assert message in done.exception.message
    assert not (tmp_path / "head").exists()


def test_a_target_in_other_names(tmp_path, target):
    stored = {"transformer.h.0.weight": made.noise(2)}
    made.write(target, made.llama_config(), stored, "model.safetensors")
    done = begin(target, "--family", "mtp", "--out", tmp_path / "head")
    assert isinstance(done.exception, PrerequisiteError)
    assert "no tensor model.norm.weight" in done.exception.message


def test_a_quantised_target(tmp_path, target):
    weights = made.small_model()
    weights = {n: t.to(mtp_fixtures.FP8) if "up_proj" in n else t for n, t in weights.items()}
    made.write(target, made.llama_config(num_hidden_layers=8), weights, "model.safetensors")
    done = begin(target, "--family", "mtp", "--out", tmp_path / "head")
    assert isinstance(done.exception, PrerequisiteError)
    assert "stored as F8_E4M3" in done.exception.message


def test_the_help_names_every_layout():
    said = "; ".join(f"{family}: {', '.join(layouts)}" for family, layouts in LAYOUTS.items())
    assert f"{said}. The first is the default." == new_head.LAYOUTS


@pytest.mark.model
@pytest.mark.parametrize("family", ["eagle1", "eagle3", "medusa", "mtp"])
def test_heads_for_the_demo_model(tmp_path, family):
    done = begin(DEMO_MODEL, "--family", family, "--out", tmp_path / "head")
    assert done.exit_code == 0, done.output
    from transformers import AutoConfig

    target = TargetShape.of(AutoConfig.from_pretrained(str(locate(DEMO_MODEL).path)))
    head = read_head(
        locate(str(tmp_path / "head")), families=(family,), target=target, dtype="float32"
    )
    assert head.config.taps
