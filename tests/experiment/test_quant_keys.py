"""Keys of quantisation and studies in an experiment file: checked before anything loads."""

from __future__ import annotations

from dataclasses import replace

import pytest
import tomli_w

from specbench.core.manifest import ArmFactors, canonical, digest
from specbench.core.quantity import Quantity
from specbench.errors import UsageError
from specbench.experiment.load import Flags, load_experiment
from specbench.experiment.manifest import draft_quant
from specbench.models.quant.settings import quant_of
from specbench.results.cells import Cell, MeasuredCell
from specbench.results.tables import table_rows
from tests.results.records import IDENTITY, MANIFEST

GOOD = """schema_version = 1
[target]
model = "m"
quant = "int4-g64"
[workload]
suites = ["code"]
[arm.self]
drafter = "draft_model"
options = { model = "m", quant = "int8" }
"""
STUDY = """
[study]
key = "target.quant"
values = ["none", "int8"]
"""


def load(tmp_path, text=GOOD, settings=()):
    path = tmp_path / "exp.toml"
    path.write_text(text)
    return load_experiment(str(path), Flags(), settings).experiment


def test_the_keys_are_resolved_and_load_to_themselves(tmp_path):
    before = load(tmp_path)
    assert before.target.quantised.label == "int4-g64"
    assert before.resolved()["target"]["quant_backend"] == "torch"
    assert load(tmp_path, tomli_w.dumps(before.resolved())).resolved() == before.resolved()
    plain = load(tmp_path, settings=['target.quant="none"']).resolved()["target"]
    assert plain["quant"] == "none"
    assert not {"quant_backend", "quant_head"} & plain.keys()


def test_a_study_of_quantisation_keeps_how_its_members_are_quantised(tmp_path):
    """Also beside a base that is not: what a resumed study reads is the resolved text."""
    settings = ['target.quant="none"', "target.quant_head=true"]
    before = load(tmp_path, GOOD + STUDY, settings)
    after = load(tmp_path, tomli_w.dumps(before.resolved()))
    for value in before.study.values:
        assert after.member(value) == before.member(value)
    assert after.member("int8").target.quantised.head


def test_the_built_in_study_holds_every_pair():
    study = load_experiment("quant", Flags()).experiment
    members = [study.member(value) for value in study.study.values]
    targets = [member.target.quantised.label for member in members]
    assert targets == ["none", "int8", "int4-g64"]
    for member in members:
        arms = [arm for arm in member.arms() if not arm.plain]
        assert [quant_of(arm.drafter_options, "arm").label for arm in arms] == targets
        assert {arm.drafter_options["model"] for arm in arms} == {member.target.model}


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("target.quant=int5", r"target\.quant = 'int5': .*write \"none\", \"int8\", \"int4\""),
        ("target.quant_backend=gptq", r"target\.quant_backend = 'gptq'.*\"torchao\""),
        ("target.quant_head=1", r"target\.quant_head = 1: .*write true or false"),
        ("target.quant_backend=bitsandbytes", "blocks of its own"),
        ("arm.self.options.quant=int5", r"arm\.self\.options: quant='int5'(?s:.*)use one of none"),
        ("engine=transformers_assisted", r"target\.quant = 'int4-g64' with engine transformers_a"),
        ("engine=llamacpp", r"with engine llamacpp(?s:.*)quantised checkpoint"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path, setting, message):
    with pytest.raises(UsageError, match=message):
        load(tmp_path, settings=[setting])


def test_a_member_of_a_study_is_the_experiment_with_one_value(tmp_path):
    whole = load(tmp_path, GOOD + STUDY)
    assert whole.resolved()["study"] == {"key": "target.quant", "values": ["none", "int8"]}
    one = whole.member("int8")
    assert one.study is None
    assert one.title == "flags, target.quant = int8"
    alone = load(tmp_path, settings=["target.quant=int8", 'title="flags, target.quant = int8"'])
    assert one.resolved() == alone.resolved()
    assert canonical(whole.target.model_dump()) == canonical(load(tmp_path).target.model_dump())


def test_keys_that_are_given_count_as_given_in_a_member(tmp_path):
    # Prompts of one's own are used whole unless a split is given: a member must know which.
    given = load(tmp_path, GOOD + STUDY, ["workload.split=dev"]).member("int8")
    assert given.workload.split_of("my/prompts.jsonl") == "dev"
    assert load(tmp_path, GOOD + STUDY).member("int8").workload.split_of("x.jsonl") == "all"


@pytest.mark.parametrize(
    ("key", "values", "message"),
    [
        ("workload.seed", "[1, 2]", r"study\.key = 'workload\.seed': a study cannot vary it"),
        ("target.quant", '["none", "int9"]', r"quant = 'int9'"),
        ("workload.top_p", "[1.0, 2.0]", r"top_p = 2\.0"),
        ("workload.max_new_tokens", '["8", 9]', r"max_new_tokens = '8'"),
    ],
)
def test_values_must_be_the_key_s(tmp_path, key, values, message):
    settings = [f'study.key="{key}"', f"study.values={values}"]
    with pytest.raises(UsageError, match=message):
        load(tmp_path, settings=settings)


def test_the_digest_of_an_identity_without_quantisation_stays_what_it_was():
    fields = {name: getattr(IDENTITY, name) for name in IDENTITY.__dataclass_fields__}
    del fields["quant"]
    assert IDENTITY.digest() == digest(fields)
    assert replace(IDENTITY, quant="int8").digest() == digest({**fields, "quant": "int8"})


@pytest.mark.parametrize(
    ("loaded", "label"),
    [
        ([], "none"),
        ([{"quant": "int8"}], "int8"),
        ([{"quant": "int8"}, {"quant": "int8"}], "int8"),
        ([{"quant": "int8"}, {"quant": "none"}], "int8, none"),
        ([{"name": "of an engine that does not say"}], "none"),
    ],
)
def test_an_arm_is_quantised_as_its_engine_says(loaded, label):
    assert draft_quant({"drafts": {"arm": loaded}}, "arm") == label


@pytest.mark.parametrize(
    ("target", "draft", "column"),
    [
        ("none", "none", "none"),
        ("int8", "none", "int8"),
        ("none", "int8", "none/int8"),
        ("int8", "int4-g32", "int8/int4-g32"),
    ],
)
def test_a_row_names_the_target_and_then_the_draft(target, draft, column):
    arm = ArmFactors("arm", "draft_model", 3, "rejection", "native", quant=draft)
    manifest = replace(MANIFEST, identity=replace(IDENTITY, quant=target), arms=(arm,))
    figures = {"accept_length": {"value": Quantity(2.0, "tokens/step")}}
    cells = {Cell("suite", 0.0, 1, "arm"): MeasuredCell((), (), (), (), figures)}
    assert [row.quant for row in table_rows(manifest, cells, {}, {})] == [column]
