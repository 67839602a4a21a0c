"""Experiment files: version first, then key, value and what to write; flags and --set."""

from __future__ import annotations

import re
import tomllib

import pytest

from specbench.errors import PrerequisiteError, UsageError
from specbench.experiment.load import Flags, builtin_names, load_experiment
from specbench.experiment.prepare import prepare

GOOD = """schema_version = 1
name = "x"
[target]
model = "m"
[workload]
suites = ["code"]
[arm.ngram]
drafter = "ngram"
k = 4
"""


def load(tmp_path, text=GOOD, flags=None, settings=()):
    path = tmp_path / "exp.toml"
    path.write_text(text)
    return load_experiment(str(path), flags or Flags(), settings).experiment


@pytest.mark.parametrize(
    ("name", "arms"),
    [
        ("quickstart", ["plain", "ngram", "mtp", "eagle3", "medusa"]),
        ("reference", ["plain", "ngram", "bigram", "mtp", "eagle3", "eagle3_16", "medusa"]),
    ],
)
def test_built_in_experiments_are_valid(name, arms):
    loaded = load_experiment(name, Flags())
    assert name in builtin_names()
    assert loaded.experiment.name == name
    assert [arm.name for arm in loaded.experiment.arms()] == arms


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (GOOD.replace('"m"', '"m"\nsampler = "flashinfer"'), "sampler = flashinfer runs on CUDA"),
        (
            GOOD + 'rule = "flashinfer_chain"\n',
            "arm ngram: rule flashinfer_chain runs on CUDA devices, and this is cpu",
        ),
    ],
)
def test_kernels_that_need_a_gpu_are_refused_in_the_plan(tmp_path, text, said):
    path = tmp_path / "exp.toml"
    path.write_text(text)
    with pytest.raises(PrerequisiteError, match=said):
        prepare(load_experiment(str(path), Flags()))


def test_resolved_experiment_loads_to_itself(tmp_path):
    import tomli_w

    before = load(tmp_path)
    after = load(tmp_path, tomli_w.dumps(before.resolved()))
    assert after == before


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("schema_version = 1", "", r"exp\.toml: schema_version is missing"),
        ("schema_version = 1", "schema_version = 2\nnew = 1", "schema_version = 2 is newer"),
        ("schema_version = 1", 'schema_version = "1"', "'1' is not a whole number"),
        ("k = 4", 'k = "4"', r"arm\.ngram\.k = '4': .*; write a whole number of at least 0"),
        ("k = 4", "k = -1", r"arm\.ngram\.k = -1: .*; write"),
        ("k = 4", "kk = 4", r"arm\.ngram\.kk = 4: unknown key; did you mean k\?"),
        ('suites = ["code"]', "", r"workload\.suites: missing; write a list of suite names"),
        ('suites = ["code"]', "suites = []", r"workload\.suites = \[\]"),
        ('suites = ["code"]', 'suites = ["a", "a"]', "a value occurs twice"),
        ('model = "m"', 'modle = "m"', r"target\.modle = 'm': unknown key; did you mean model or "),
        ("[target]", "limt = 3\n[target]", "limt = 3: unknown key"),
        ("[arm.ngram]", "[arm.plain]", "'plain' is always present"),
        ('drafter = "ngram"', 'drafter = "none"', "drafts nothing: that is the arm 'plain'"),
        ("[workload]", "[workload]\ntemperatures = [-1.0]", "temperature must be >= 0"),
        ("[workload]", "[workload]\ntop_p = 0.0", r"workload\.top_p = 0\.0"),
        ("[workload]", "[workload]\nhistory = 'all'", r"write \"plain\", \"own\" or \"fixed\""),
        ("[target]", "[target", r"exp\.toml: not TOML: .*line 3"),
    ],
)
def test_wrong_files_say_file_key_value_and_what_to_write(tmp_path, old, new, message):
    with pytest.raises(UsageError, match=message) as caught:
        load(tmp_path, GOOD.replace(old, new, 1))
    assert "exp.toml" in str(caught.value)


def test_unknown_names_show_the_nearest():
    with pytest.raises(UsageError, match="did you mean quickstart"):
        load_experiment("quickstrat", Flags())
    with pytest.raises(PrerequisiteError, match=r"cannot read experiment nowhere\.toml"):
        load_experiment("nowhere.toml", Flags())


def test_set_overrides_any_key(tmp_path):
    settings = ["arm.ngram.k=7", "workload.temperatures=[0.0, 1.0]", "target.device=cuda:0"]
    found = load(tmp_path, settings=[*settings, "arm.ngram.options.min_n=2"])
    assert found.arm["ngram"].k == 7
    assert found.workload.temperatures == [0.0, 1.0]
    assert found.target.device == "cuda:0"
    assert found.arm["ngram"].options == {"min_n": 2}


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("arm.ngrm.k=7", "no arm 'ngrm'.*did you mean ngram"),
        ("workload.limt=3", "unknown key; did you mean limit"),
        ("workload.limit", "not KEY=VALUE"),
        ("workload.limit=", "not a TOML value"),
        ("name.x=1", "'name' is a value, not a table"),
        ("arm.ngram.k=many", r"arm\.ngram\.k = 'many'"),
    ],
)
def test_wrong_settings_are_refused(tmp_path, setting, message):
    with pytest.raises(UsageError, match=re.compile(message, re.DOTALL)):
        load(tmp_path, settings=[setting])


def test_flags_alone_make_an_experiment():
    flags = Flags(
        target="m", draft="d", k=3, suites=("code",), temperatures=(0.0, 0.8), rules=("greedy",)
    )
    found = load_experiment(None, flags).experiment
    arm = found.arm["draft_model"]
    assert (arm.drafter, arm.k, arm.rule, arm.options) == (
        "draft_model",
        3,
        "greedy",
        {"model": "d"},
    )
    assert found.workload.temperatures == [0.0, 0.8]
    with pytest.raises(UsageError, match="no experiment, no --target and no --url"):
        load_experiment(None, Flags(suites=("code",)))
    with pytest.raises(UsageError, match=r"command line: workload\.suites: missing"):
        load_experiment(None, Flags(target="m"))
    with pytest.raises(UsageError, match="need an arm that drafts"):
        load_experiment(None, Flags(target="m", suites=("code",), k=3))


def test_several_rules_make_an_arm_each(tmp_path):
    found = load(tmp_path, flags=Flags(rules=("rejection", "target_match")))
    assert {name: arm.rule for name, arm in found.arm.items()} == {
        "ngram-rejection": "rejection",
        "ngram-target_match": "target_match",
    }


def test_k_zero_with_a_drafter_is_an_arm_of_its_own(tmp_path):
    found = load(tmp_path, flags=Flags(k=0))
    assert [(arm.name, arm.k, arm.plain) for arm in found.arms()] == [
        ("plain", 0, True),
        ("ngram", 0, False),
    ]


def test_passed_text_keeps_the_overrides(tmp_path):
    path = tmp_path / "exp.toml"
    path.write_text(GOOD)
    passed = load_experiment(str(path), Flags(limit=3), ["arm.ngram.k=7"]).passed
    assert '"limit":3' in passed
    assert "# --set arm.ngram.k=7" in passed
    assert tomllib.loads(passed)["arm"]["ngram"]["k"] == 4


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('drafter = "ngram"', 'drafter = "ngrm"', "unknown drafter 'ngrm'.*did you mean ngram"),
        ("k = 4", 'k = 4\nrule = "rejectoin"', "unknown rule.*did you mean rejection"),
        ("k = 4", "k = 4\noptions = {min = 1}", "drafter ngram has no option 'min'"),
        ("k = 4", "k = 4\nrule_options = {x = 1}", "rule rejection has no parameter 'x'"),
        ('name = "x"', 'name = "x"\nengine = "natve"', "unknown engine.*did you mean native"),
        ('suites = ["code"]', 'suites = ["coed"]', "code"),
        ('drafter = "ngram"', 'drafter = "draft_model"', "needs a draft model.*--draft"),
    ],
)
def test_what_can_be_checked_is_checked_before_a_model_loads(
    tmp_path, monkeypatch, old, new, message
):
    monkeypatch.setattr("specbench.experiment.prepare.locate", lambda *a, **k: None)
    path = tmp_path / "exp.toml"
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises((UsageError, PrerequisiteError), match=re.compile(message, re.DOTALL)):
        prepare(load_experiment(str(path), Flags()))


def test_a_draft_model_that_is_not_here_is_named_before_the_target_loads(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "specbench.experiment.prepare.locate", lambda name, **k: asked.append((name, k["revision"]))
    )
    path = tmp_path / "exp.toml"
    options = 'options = {model = "d", revision = "r"}'
    path.write_text(GOOD.replace('"ngram"', '"draft_model"') + options)
    prepare(load_experiment(str(path), Flags()))
    assert asked == [("m", None), ("d", "r")]
