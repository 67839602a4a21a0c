"""What is refused before anything is loaded, or before hours go into data."""

import pytest

from specbench.errors import PrerequisiteError, UsageError
from specbench.train.data.target_answers import TargetAnswers
from specbench.train.job.check import check
from tests.train.job.trained import Heard

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize(
    ("method", "tables", "kind", "says"),
    [
        ("mtp", {"validate": {"suites": ["cod"]}}, UsageError, "cod"),
        ("mtp", {"validate": {"suites": ["./none.jsonl"]}}, UsageError, "none.jsonl"),
        ("mtp", {"validate": {"options": {"tre": 1}}}, UsageError, "validate.options.tre"),
        ("mtp", {"validate": {"options": {"model": "x"}}}, UsageError, "validate.options.model"),
        ("eagle1", {"validate": {"options": {"tree": "eagle_25"}}}, UsageError, "are drawn"),
        ("mtp", {"head": {"layout": "official"}}, UsageError, "head.layout = 'official': mtp"),
        ("mtp", {"head": {"start": "/no/where"}}, UsageError, "/no/where"),
        ("distill", {"head": {"start": "/no/where"}}, UsageError, "/no/where"),
        ("mtp", {"target": {"model": "/no/model"}}, UsageError, "/no/model"),
    ],
)
def test_refused_before_anything_is_loaded(bench, tmp_path, method, tables, kind, says):
    folder = bench.folder(f"refused-{tmp_path.name}")
    with pytest.raises((UsageError, PrerequisiteError), match=says.replace(".", r"\.")):
        bench.train(bench.recipe(method, **tables), folder)
    assert not folder.path.exists()


def test_options_that_can_be_validated_with(bench):
    check(bench.recipe("eagle3", validate={"options": {"tree": "dynamic"}}))
    check(bench.recipe("eagle1", validate={"options": {"tree": "4x2", "sampling": "greedy"}}))
    # At temperature 0 nothing is drawn.
    cold = {"temperatures": [0.0]}
    check(bench.recipe("eagle1", data=cold, validate={"options": {"tree": "eagle_25"}}))


@pytest.mark.parametrize(
    ("method", "tables", "says"),
    [
        ("mtp", {"head": {"full": True, "layout": "mimo"}}, "head.layout = 'mimo'"),
        ("distill", {"head": {"layers": 9}}, "head.layers = 9"),
    ],
)
def test_refused_before_data_is_made(bench, monkeypatch, method, tables, says):
    def opened(self, target):
        raise AssertionError("the target was opened")

    monkeypatch.setattr(TargetAnswers, "__init__", opened)
    heard = Heard()
    with pytest.raises(UsageError, match=says.replace(".", r"\.")):
        bench.train(bench.recipe(method, **tables), bench.folder(f"early-{method}"), heard)
    assert heard.stages == []
