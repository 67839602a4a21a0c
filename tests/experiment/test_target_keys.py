"""Keys of [target] that an engine would not read are refused, and never left out of sight."""

import pytest

from specbench.catalog import ENGINES, SERVERS
from specbench.errors import UsageError
from specbench.experiment.load import Flags, load_experiment
from specbench.experiment.target_keys import OF_NATIVE, OPTIONS
from specbench.experiment.workload import Target

VALUES = {
    "attention": "flashinfer",
    "sampler": "flashinfer",
    "tensor_parallel": 2,
    "graphs": True,
    "compile": True,
    "schedule": "overlapped",
    "prepack": False,
}
TEXT = """
schema_version = 1
engine = "{engine}"
[target]
model = "smollm2-135m-instruct"
[workload]
suites = ["code"]
"""
OTHERS = [*SERVERS, "transformers_assisted", "scripted"]


def load(tmp_path, engine, *settings):
    path = tmp_path / "exp.toml"
    path.write_text(TEXT.format(engine=engine))
    return load_experiment(str(path), Flags(), settings).experiment


def test_every_key_has_a_value_to_try():
    assert set(VALUES) == set(OF_NATIVE)
    assert all(Target.model_fields[name].default != value for name, value in VALUES.items())
    assert {*OTHERS, "native"} == set(ENGINES) == set(OPTIONS)


@pytest.mark.parametrize("engine", OTHERS)
@pytest.mark.parametrize("name", VALUES)
def test_a_key_of_the_native_engine_on_another_one(tmp_path, name, engine):
    shown = str(VALUES[name]).lower() if isinstance(VALUES[name], bool) else VALUES[name]
    with pytest.raises(UsageError, match=rf"target\.{name} = .*not {engine}") as refused:
        load(tmp_path, engine, f"target.{name}={shown}")
    assert ("args_extra" in refused.value.hint) == (engine in SERVERS)
    load(tmp_path, "native", f"target.{name}={shown}")


def test_what_is_written_out_at_its_default_is_no_wish(tmp_path):
    load(tmp_path, "vllm", "target.graphs=false", 'target.schedule="in-order"')


@pytest.mark.parametrize(
    ("engine", "name", "hint"),
    [
        ("native", "evidnce", "did you mean evidence"),
        ("transformers_assisted", "evidence", "known: spans"),
        ("vllm", "evidence", "remove it"),
        ("scripted", "step", "did you mean step_ms"),
    ],
)
def test_an_option_that_no_engine_or_another_one_has(tmp_path, engine, name, hint):
    with pytest.raises(UsageError, match=rf"target\.options\.{name}: engine {engine}") as refused:
        load(tmp_path, engine, f"target.options.{name}=secret")
    assert hint in refused.value.hint
    assert "secret" not in str(refused.value)


def test_options_that_there_are(tmp_path):
    found = load(tmp_path, "native", "target.options.evidence=false")
    assert found.target.options == {"evidence": False}
    load(tmp_path, "transformers_assisted", "target.options.spans=false")
