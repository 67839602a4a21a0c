"""Runs of a target that two processes share, through the command line."""

import json

import pytest

from specbench.cli.main import call
from tests.models.parallel.processes import environment, run_group

pytestmark = pytest.mark.usefixtures("one_thread")
EXPERIMENT = """
schema_version = 1
[target]
model = "{model}"
template = "none"
tensor_parallel = {size}

[workload]
suites = ["{suite}"]
temperatures = [0.0, 0.8]
max_new_tokens = 12

[arm.lookup]
drafter = "ngram"
k = 3

[arm.draft]
drafter = "draft_model"
k = 3
rule = "target_match"
options = {{ model = "{model}" }}

[arm.head]
drafter = "mtp"
k = 2
options = {{ model = "untrained" }}

[arm.tree]
drafter = "eagle1"
k = 2
options = {{ model = "untrained", tree = [[0], [1], [0, 0], [1, 0]] }}
"""
PROMPTS = ["one two three one two", "a", "so it goes, so it goes"]


@pytest.fixture(scope="module")
def written(tmp_path_factory, tiny_target):
    """size -> experiment file, for one process and for two."""
    folder = tmp_path_factory.mktemp("parallel")
    suite = folder / "own.jsonl"
    suite.write_text("".join(json.dumps({"prompt": prompt}) + "\n" for prompt in PROMPTS))
    for size in (1, 2):
        text = EXPERIMENT.format(model=tiny_target, suite=suite, size=size)
        (folder / f"{size}.toml").write_text(text)
    return folder


def outputs(folder):
    """(arm, item, temperature) -> tokens and steps, of the only run of a folder."""
    (run,) = folder.iterdir()
    found = {}
    for line in (run / "traces.jsonl").read_text().splitlines():
        record = json.loads(line)
        if record["record"] == "trace":
            key = record["key"]
            place = (record["arm"], key["item"], key["temperature"])
            found[place] = (record["output_ids"], record["steps"]["accepted"])
    return found, json.loads((run / "manifest.json").read_text())


def test_two_processes_decode_what_one_does_and_one_of_them_says_so(written, monkeypatch):
    single, double = written / "single", written / "double"
    monkeypatch.setattr("sys.argv", ["specbench", "run"])
    assert call(["run", str(written / "1.toml"), "--out", str(single)]) == 0
    command = ["-m", "specbench", "run", str(written / "2.toml"), "--out", str(double)]
    (code, said, errors), silent = run_group(command)
    assert (code, silent) == (0, (0, "", "")), errors
    assert "lookup" in said
    expected, _ = outputs(single)
    found, manifest = outputs(double)
    assert len(expected) == 5 * len(PROMPTS) * 2
    assert found == expected
    assert manifest["engine"]["tensor_parallel"] == 2


@pytest.mark.parametrize(
    ("world", "told"), [({}, "was started alone"), (environment(0, 1, 29500), "is one of 1")]
)
def test_without_the_others_it_says_how_to_start_them(written, monkeypatch, capsys, world, told):
    for name in ("RANK", "WORLD_SIZE"):
        if name in world:
            monkeypatch.setenv(name, world[name])
        else:
            monkeypatch.delenv(name, raising=False)
    assert call(["run", str(written / "2.toml"), "--out", str(written / "none")]) == 2
    errors = capsys.readouterr().err
    assert f"target.tensor_parallel = 2, and this process {told}" in errors
    assert "torchrun --nproc-per-node 2 -m specbench run" in errors


def test_early_exits_and_other_commands_are_refused(written):
    text = (written / "2.toml").read_text().split("[arm.lookup]")[0]
    exits = written / "exit.toml"
    exits.write_text(
        f'{text}[arm.exit]\ndrafter = "layer_skip"\nk = 2\noptions = {{ layers = 1 }}\n'
    )
    found = run_group(["-m", "specbench", "run", str(exits), "--out", str(written / "none")])
    code, _, errors = found[0]
    assert code == 3
    assert "arm exit: layers that are shared by several processes have no early exit" in errors
    assert found[1][0] != 0
