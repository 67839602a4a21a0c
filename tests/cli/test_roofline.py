"""`specbench roofline`: what it prints, in every form, and what it refuses."""

from __future__ import annotations

import csv
import io
import json

import pytest
from click.testing import CliRunner

from specbench.cli import roofline_call
from specbench.cli.main import call
from specbench.cli.roofline import roofline
from specbench.models.shapes.find import configuration
from specbench.roofline.devices import Device


def run(*arguments):
    done = CliRunner().invoke(roofline, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def document(*arguments):
    return json.loads(run(*arguments, "--json"))


def rows(found, table, **where):
    return [row for row in found["tables"][table] if all(row[key] == where[key] for key in where)]


def test_the_screen():
    text = run("llama-3.1-8b", "--draft", "eagle3")
    assert "NVIDIA H200 SXM, 4.8 TB/s, 989 TFLOP/s in bfloat16 (dense), ridge 206 FLOP/B" in text
    assert "8.03 B parameters" in text
    assert "192 rows, 3 tiles of 64" in text
    assert "draft: eagle3 head, 0.4247 B parameters" in text
    assert "KV 128 KiB per token" in text
    assert max(map(len, text.splitlines())) <= 140


def test_a_forward_by_hand():
    found = document("llama-3.1-8b", "--batch", "4", "--context", "999")
    matrices, attention, output, whole = found["tables"]["forward"]
    assert matrices["GB"] == pytest.approx(2 * 6_979_321_856 / 1e9)
    assert matrices["GFLOP"] == pytest.approx(4 * matrices["GB"])
    assert attention["GB"] == pytest.approx(4 * 1000 * 131072 / 1e9)
    assert attention["FLOP/B"] == pytest.approx(4)  # 32 heads over 8, one row
    assert output["ms"] == pytest.approx(2 * 128256 * 4096 / 4.8e9)
    assert whole["ms"] == pytest.approx(whole["GB"] / 4.8)  # memory is the limit throughout
    (load,) = found["tables"]["loads"]
    assert load["ITL ms"] == pytest.approx(whole["ms"])
    assert load["tok/s all"] == pytest.approx(4 * load["tok/s user"])


def test_best_k_for_a_stated_cost():
    found = document(
        *("llama-3.1-8b", "--draft-cost", "0.1", "--batch", "1", "--context", "10"),
        *("--acceptance", "0.6,0.8", "--k", "16"),
    )
    low, high = found["tables"]["speedups"]
    assert (low["K"], high["K"]) == (3, 6)  # ALGORITHMS 2.1, c = 0.1
    assert low["speed-up"] == pytest.approx(1.67, abs=5.1e-3)
    assert high["speed-up"] == pytest.approx(2.47, abs=5.1e-3)
    assert low["break-even"] == pytest.approx(0.1, abs=1e-3)


def test_experts_met():
    found = document("deepseek-v3")
    one, two = rows(found, "rows", rows=1)[0], rows(found, "rows", rows=2)[0]
    assert one["experts met"] == pytest.approx(8)
    assert two["experts met"] == pytest.approx(15.75)
    assert two["cost"] > 1.5
    assert "experts met" not in document("llama-3.1-8b")["tables"]["rows"][0]


def test_quantised_weights_are_read_faster():
    plain, four = (
        document("llama-3.1-8b", *more)["tables"]["forward"][0]["ms"]
        for more in ((), ("--quant", "4"))
    )
    assert four == pytest.approx(2 * 6_979_321_856 * 64 / 989e9, rel=1e-6)  # a tile's arithmetic
    assert plain == pytest.approx(2 * 6_979_321_856 / 4.8e9)


def test_memory_of_the_draft():
    found = document("llama-3.1-8b", "--draft", "llama-3.2-1b", "--context", "8192")
    (held,) = found["tables"]["memory"]
    # 0.9 x 141 GB less weights, over 8192 tokens of 131072 bytes, and of 32768 bytes more
    assert held["requests"] == int((126.9e9 - 2 * 8_029_995_008) // (8192 * 131072))
    small = 2 * configured_parameters("llama-3.2-1b")
    left = 126.9e9 - 2 * 8_029_995_008 - small
    assert held["with the draft"] == int(left // (8192 * (131072 + 32768)))
    assert held["lost"] == held["requests"] - held["with the draft"]


def configured_parameters(name):
    """Of a tied Llama, by hand."""
    c = configuration(name).config
    hidden, size = c["hidden_size"], c["head_dim"]
    attention = 2 * hidden * size * (c["num_attention_heads"] + c["num_key_value_heads"])
    layer = attention + 3 * hidden * c["intermediate_size"]
    return c["num_hidden_layers"] * layer + c["vocab_size"] * hidden


def test_weights_that_do_not_fit_are_said_to():
    assert "weights do not fit" in run("deepseek-v3")
    assert "weights do not fit" not in run("deepseek-v3", "--devices", "8")


def test_loads_that_do_not_fit_are_said_to():
    found = document("llama-3.1-8b", "--batch", "8,128", "--context", "8192,32768")
    # 103 requests of 8192 tokens fit beside the weights, 25 of 32768
    fits = {(row["context"], row["batch"]): row["fits"] for row in found["tables"]["loads"]}
    assert fits == {(8192, 8): "yes", (8192, 128): "no", (32768, 8): "yes", (32768, 128): "no"}


def test_medusa_drafts_no_more_than_it_has_heads():
    found = document("llama-3.1-8b", "--draft", "medusa")
    assert max(row["K"] for row in found["tables"]["speedups"]) <= 5


def test_csv_is_one_document():
    table = list(csv.DictReader(io.StringIO(run("llama-3.1-8b", "--format", "csv"))))
    assert {row["table"] for row in table} == {"forward", "rows", "loads", "speedups", "memory"}


def test_markdown():
    text = run("llama-3.1-8b", "--format", "md")
    assert "## a forward of plain decoding" in text
    assert "| part | GB |" in text


def test_a_folder_or_a_file(tmp_path):
    file = tmp_path / "config.json"
    file.write_text(json.dumps(configuration("qwen3-8b").config))
    by_file, by_folder, by_name = (
        document(name)["tables"] for name in (str(file), str(tmp_path), "qwen3-8b")
    )
    assert by_file == by_folder == by_name


def test_plots(tmp_path):
    run("llama-3.1-8b", "--plots", str(tmp_path / "plots"), "--draft", "eagle3")
    names = sorted(path.name for path in (tmp_path / "plots").iterdir())
    assert names == [
        *("roofline.csv", "roofline.png", "roofline.svg"),
        *("roofline_speedup.csv", "roofline_speedup.png", "roofline_speedup.svg"),
    ]
    with (tmp_path / "plots" / "roofline.csv").open() as file:
        points = list(csv.DictReader(file))
    # below the roof: no point is faster than memory or arithmetic allow
    for point in points:
        roof = min(989e12, float(point["FLOP/B"]) * 4.8e12)
        assert float(point["FLOP/s"]) <= roof * (1 + 1e-9)


def test_a_measured_device_is_used_as_any_other(monkeypatch):
    toy = Device("measured", "this CPU", 1e10, {"float32": 1e11, "bfloat16": 5e10}, 8e9, "now", 1)
    monkeypatch.setattr(roofline_call, "_measured", lambda where, count, dtypes: toy)
    found = document("llama-3.2-1b", "--device", "measured")
    parts = found["tables"]["forward"]
    assert parts[-1]["ms"] == pytest.approx(parts[-1]["GB"] * 100)
    assert rows(found, "rows", rows=4)[0]["computed"] == 4  # no tiles on a CPU


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["llama-3.1-8b", "--device", "h300"], 2, "unknown device 'h300'"),
        (["llama-3.1-8b", "--device", "t4"], 2, "no products in bfloat16"),
        (["deepseek-v3", "--device", "a100"], 2, "no products in float8"),
        (["lama-3.1-8b"], 2, "unknown model 'lama-3.1-8b'"),
        (["some-org/some-model"], 3, "not in the hub cache"),
        (["./nowhere"], 3, "no file or folder"),
        (["model.gguf"], 2, "GGUF"),
        (["llama-3.1-8b", "--batch", "1,x"], 2, "--batch 1,x"),
        (["llama-3.1-8b", "--context", "0"], 2, "0 is too small"),
        (["llama-3.1-8b", "--acceptance", "1.2"], 2, "--acceptance 1.2"),
        (["llama-3.1-8b", "--draft", "eagle3", "--draft-cost", "0.1"], 2, "--draft-cost beside"),
        (["llama-3.1-8b", "--draft-vocab", "100"], 2, "--draft-vocab without a draft"),
        (["deepseek-v3", "--device", "measured"], 2, "float8 are not measured"),
        (["qwen3-8b", "--device", "measured", "--devices", "2"], 2, "one machine is measured"),
        (["qwen3-8b", "--device", "measured:abacus"], 2, "unknown device 'abacus'"),
        (["zoo:smollm2-135m-bigram"], 3, "'bigram' are not known"),
        (["zoo:smollm2-135m-eagle3"], 3, "the configuration of a head"),
    ],
)
def test_refused(arguments, code, says, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert call(["roofline", *arguments]) == code
    error = capsys.readouterr().err
    assert says in error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"model_type": "llama"}, "config.json has no hidden_size"),
        ({"model_type": "mamba2", "hidden_size": 8}, "'mamba2' are not known here"),
        ([], "expected a JSON object"),
    ],
)
def test_configurations_that_cannot_be_used(config, says, tmp_path, capsys):
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert call(["roofline", str(tmp_path)]) == 3
    assert says in capsys.readouterr().err
