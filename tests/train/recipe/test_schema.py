"""recipe.toml: defaults, and what a wrong key, type or value is told."""

import pytest

from specbench.errors import UsageError
from specbench.train.recipe.methods import DEFAULTS, DRAFTERS, FAMILIES, READ_BY
from specbench.train.recipe.read import read_recipe
from specbench.train.recipe.schema import Head, Recipe, Train, recipe_of

PROMPTS = {"source": "library", "name": "lib", "count": 4}
METHODS = ("medusa1", "medusa2", "blockwise", "eagle1", "eagle3", "mtp", "distill", "bigram")


def table(method="mtp", **tables):
    return {
        "schema_version": 1,
        "name": "mine",
        "method": method,
        "target": {"model": "m"},
        "data": {"prompts": [PROMPTS]},
        **tables,
    }


def refusal(data):
    with pytest.raises(UsageError) as refused:
        recipe_of(data, "r.toml")
    return refused.value


@pytest.mark.parametrize(
    ("method", "key", "value"),
    [
        ("medusa1", "loss", "token_cross_entropy"),
        ("medusa1", "clip_norm", 0.0),
        ("medusa2", "head_weight", 0.2),
        ("blockwise", "normalised", True),
        ("blockwise", "decay", 1.0),
        ("eagle1", "feature_weight", 1.0),
        ("eagle1", "law_weight", 0.1),
        ("eagle1", "clip_value", 0.5),
        ("eagle3", "steps", 7),
        ("eagle3", "decay", 0.8),
        ("mtp", "decay", 0.6),
        ("mtp", "clip_norm", 0.5),
        ("distill", "learning_rate", 3e-4),
        ("distill", "loss", "forward_kl"),
    ],
)
def test_published_defaults(method, key, value):
    assert getattr(recipe_of(table(method), "r.toml").train, key) == value


def test_what_the_file_says_goes_above_the_method():
    recipe = recipe_of(
        table("eagle1", train={"noise": 0.0, "epochs": 2}, validate={"options": {"quant": "int8"}}),
        "r.toml",
    )
    assert (recipe.train.noise, recipe.train.epochs) == (0.0, 2.0)
    # Beside it the method's defaults stay, inside the table of options too.
    assert recipe.train.feature_weight == 1.0
    assert recipe.validate_.options == {"tree": "chain", "quant": "int8"}


def test_every_method_has_a_drafter_a_family_and_valid_defaults():
    assert set(FAMILIES) == set(DRAFTERS) == set(DEFAULTS) == set(METHODS)
    for method in METHODS:
        assert recipe_of(table(method), "r.toml").family == FAMILIES[method]


def test_declared_keys_exist():
    keys = {f"head.{name}" for name in Head.model_fields}
    keys |= {f"train.{name}" for name in Train.model_fields}
    assert set(READ_BY) <= keys
    # A method's own defaults are of keys that it reads.
    for method, tables in DEFAULTS.items():
        for name in tables.get("train", {}):
            assert method in READ_BY.get(f"train.{name}", METHODS), (method, name)


def test_a_list_of_two_betas_is_read():
    assert recipe_of(table(train={"betas": [0.8, 0.99]}), "r").train.betas == [0.8, 0.99]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({**table(), "method": "medusa"}, "method = 'medusa': Input should be 'medusa1'"),
        ({**table(), "method": ["mtp"]}, "method = ['mtp']"),
        ({**table(), "name": "Mine"}, "name = 'Mine'"),
        ({**table(), "name": "Mine"}, "write lower-case letters"),
        ({**table(), "target": {}}, "target.model: missing; write a named demo model"),
        ({**table(), "target": "m"}, "target = 'm': not a table; write a table [target]"),
        ({**table(), "train": 3}, "train = 3: not a table; write [train]"),
        (table(train={"lr": 1}), "train.lr = 1: unknown key; known: epochs"),
        (table(train={"learning_rat": 1}), "unknown key; did you mean learning_rate or"),
        (table(train={"layout": "x"}), "train.layout = 'x': unknown key; it belongs in [head]"),
        (table(train={"epochs": "3"}), "train.epochs = '3': Input should be a valid number"),
        (table(train={"epochs": True}), "train.epochs = True: Input should be a valid number"),
        (table(train={"epochs": 0}), "train.epochs = 0: Input should be greater than 0"),
        (table(train={"learning_rate": float("inf")}), "finite number"),
        (table(train={"betas": [0.9, 1.0]}), "train.betas.1 = 1.0: Input should be less than 1"),
        (table(train={"betas": [0.9]}), "write two numbers from 0 to less than 1"),
        (table(train={"accumulate": 0}), "greater than or equal to 1"),
        (table(train={"precision": "float16"}), "'float32' or 'bfloat16'"),
        (table(train={"loss": "kl"}), "train.loss = 'kl': Input should be 'forward_kl'"),
        (table(head={"draft_vocabulary": 1.5}), "head.draft_vocabulary = 1.5: Input should be"),
        (table(validate={"suite": []}), "validate.suite = []: unknown key; did you mean suites"),
        ({**table(), "prompts": []}, "prompts = []: unknown key; it belongs in [data]"),
        ({**table(), "schema_version": 2}, "schema_version = 2 is not read here"),
        ({**table(), "schema_version": True}, "schema_version = True is not read here"),
    ],
)
def test_wrong_keys_types_and_values(data, says):
    message = str(refusal(data))
    assert message.startswith("r.toml: ")
    assert says in message


def test_missing_tables_are_all_named():
    lines = refusal({"schema_version": 1}).message.splitlines()
    assert [line.split(":")[1].strip() for line in lines] == ["name", "method", "target", "data"]


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ({"source": "web", "name": "a"}, "data.prompts.0.source = 'web': unknown; write \"self\""),
        ({"name": "a", "count": 1}, 'data.prompts.0.source: missing; write "self"'),
        ({"source": "suite", "name": "a", "suite": 1}, "data.prompts.0.suite = 1: Input should be"),
        ({"source": "suite", "name": "a"}, "data.prompts.0.suite: missing; write a suite's name"),
        ({**PROMPTS, "openers": []}, "data.prompts.0.openers = []: unknown key; known: source"),
        ({**PROMPTS, "name": "a b"}, "data.prompts.0.name = 'a b'"),
    ],
)
def test_sources_of_prompts(source, says):
    assert says in refusal({**table(), "data": {"prompts": [source]}}).message


def test_a_whole_table_is_not_printed():
    twice = {"prompts": [PROMPTS], "answers": 2, "temperatures": [0.0]}
    message = refusal({**table(), "data": twice}).message
    assert message.startswith("r.toml: data: answers = 2")
    message = refusal({**table(), "data": {"prompts": [PROMPTS, PROMPTS]}}).message
    assert message.startswith("r.toml: data.prompts: two of them have the name 'lib'")


@pytest.mark.parametrize(
    ("method", "tables", "says"),
    [
        ("mtp", {"head": {"heads": 3}}, "head.heads = 3: mtp does not read it, medusa1 and"),
        ("medusa1", {"train": {"noise": 0.1}}, "train.noise = 0.1: medusa1 does not read it"),
        ("distill", {"head": {"draft_vocabulary": 9}}, "head.draft_vocabulary = 9: distill"),
        ("eagle3", {"head": {"input_norm": True}}, "eagle3 does not read it, eagle1 do"),
        ("eagle1", {"head": {"fc_norm": True}}, "eagle1 does not read it, eagle3 do"),
        ("medusa2", {"head": {"layout": "v1"}}, "head.layout = 'v1': medusa2 does not read it"),
        ("medusa1", {"train": {"rank": 4}}, "train.rank = 4: medusa1 does not read it"),
        ("mtp", {"train": {"on_policy": 0.5}}, "train.on_policy = 0.5: mtp does not read it"),
        ("mtp", {"head": {"start": "x", "draft_vocabulary": 9}}, "head.start = 'x' names is as it"),
        ("distill", {"head": {"start": "x", "layers": 2}}, "head.start = 'x' names is as it is"),
        (
            "mtp",
            {"head": {"draft_vocabulary": 9}, "train": {"temperature": 0.7}},
            "train.temperature = 0.7: with head.draft_vocabulary = 9",
        ),
    ],
)
def test_keys_that_would_not_be_read(method, tables, says):
    message = refusal(table(method, **tables)).message
    assert message.startswith("r.toml: ")
    assert says in message


def test_findings_of_both_kinds_come_together():
    lines = refusal(table(head={"heads": 0}, train={"epochs": 0})).message.splitlines()
    assert len(lines) == 3
    assert sum("head.heads = 0" in line for line in lines) == 2


def test_files(tmp_path):
    path = tmp_path / "r.toml"
    with pytest.raises(UsageError, match="no recipe"):
        read_recipe(path)
    path.write_text("name = ")
    with pytest.raises(UsageError, match=r"r\.toml: .*\n.*a recipe is a TOML file"):
        read_recipe(path)
    path.write_bytes(b"\xff")
    with pytest.raises(UsageError, match="a recipe is a TOML file"):
        read_recipe(path)
    with pytest.raises(UsageError, match="cannot read"):
        read_recipe(tmp_path)
    path.write_text(
        'schema_version = 1\nname = "a"\nmethod = "eagle3"\n[target]\nmodel = "m"\n[data]\n'
        '[[data.prompts]]\nsource = "library"\nname = "lib"\ncount = 3\n'
    )
    assert isinstance(read_recipe(path), Recipe)
