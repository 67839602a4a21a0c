"""Which drafts a record can score: how they are named, and what is refused or left out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specbench.core.arm import ArmSpec
from specbench.errors import UsageError
from specbench.experiment.replay.drafts import Drafts, named_drafts, scorable
from tests.experiment.replayed_run import EXPERIMENT, drafts

pytestmark = pytest.mark.usefixtures("one_thread")


def test_options_are_toml_values_or_text():
    (spec,) = drafts("draft_model:model=a/b,tree=[[0],[0,1]],sampling=greedy,nodes=7").specs
    assert spec.drafter == "draft_model"
    assert spec.drafter_options == {
        "model": "a/b",
        "tree": [[0], [0, 1]],
        "sampling": "greedy",
        "nodes": 7,
    }


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ((), "no draft to replay"),
        (("none",), "drafts nothing"),
        (("ngram", "ngram"), "is there twice"),
        (("ngram:2",), "'2' is not key=value"),
        (("ngram:min_n=",), "is not key=value"),
    ],
)
def test_drafts_that_say_nothing(texts, message):
    with pytest.raises(UsageError, match=message):
        drafts(*texts)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ngrams", "unknown drafter 'ngrams'"),
        ("ngram:minimum=2", "no option 'minimum'"),
        ("draft_model", "needs a draft model"),
    ],
)
def test_drafts_are_checked_as_arms_are(text, message):
    with pytest.raises(UsageError, match=message):
        scorable(drafts(text), [0.0])


def test_arms_of_an_experiment_by_name(tmp_path):
    file = tmp_path / "experiment.toml"
    file.write_text(EXPERIMENT.format(folder=tmp_path))
    source = str(file)
    made = named_drafts(("second", "ngram:max_n=4"), source)
    assert [spec.name for spec in made.specs] == ["second", "ngram:max_n=4"]
    assert made.specs[0].drafter_options == {"model": str(tmp_path / "noisy")}
    with pytest.raises(UsageError, match="neither an arm of --arms nor a drafter") as refused:
        named_drafts(("secnd",), source)
    assert "did you mean second" in refused.value.hint
    other = tmp_path / "other.toml"
    text = file.read_text()
    other.write_text(text.replace('name = "drafts"', 'name = "d"\nengine = "scripted"'))
    with pytest.raises(UsageError, match="drives drafters in this process"):
        named_drafts((), str(other))


class Drawn:
    """A drafter whose candidates are drawn without replacement."""

    def __init__(self):
        from specbench.decoding.protocols import DrafterInfo, DraftFacts

        tree = DraftFacts("dense", "without_replacement", tree=True)
        self.info = DrafterInfo("drawn", "", "", tree)


def test_drawn_trees_are_for_temperature_0(monkeypatch):
    from specbench import catalog

    monkeypatch.setitem(catalog.DRAFTERS, "drawn", "drawn")
    resolve = catalog.resolve
    monkeypatch.setattr(
        catalog, "resolve", lambda table, name: Drawn() if name == "drawn" else resolve(table, name)
    )
    one = Drafts((ArmSpec("drawn", "drawn", 1, "multi_round"),))
    assert scorable(one, [0.0]) == one
    with pytest.raises(UsageError, match=r"without_replacement.*temperature 0\.8") as refused:
        scorable(one, [0.0, 0.8])
    assert refused.value.hint == "replay temperature 0 alone: --temperature 0"
    with pytest.raises(UsageError) as refused:
        scorable(one, [0.8])
    assert refused.value.hint == "leave them out"


TREE = "draft_model:model=a/b,tree=2x2"
SEVERAL = "multi_draft:models=['a/b', 'c/d']"


def test_drawn_drafts_that_were_named_are_refused_together(monkeypatch):
    with pytest.raises(UsageError) as refused:
        scorable(drafts("ngram", TREE, SEVERAL), [0.0, 1.0])
    assert f"{TREE} (without_replacement), {SEVERAL} (independent)" in refused.value.message
    # A sampled chain draws one candidate, greedy trees draw none; several models make no chain.
    assert refused.value.hint == (
        f"replay temperature 0 alone: --temperature 0, or give {TREE} sampling=greedy or "
        f"tree=chain, or give {SEVERAL} sampling=greedy"
    )
    for way in ("sampling=greedy", "tree=chain"):
        mended = f"{TREE},{way}" if way.startswith("s") else TREE.replace("tree=2x2", way)
        scorable(drafts("ngram", mended, f"{SEVERAL},sampling=greedy"), [0.0, 1.0])


def test_of_the_arms_of_an_experiment_those_that_can_are_scored():
    asked = named_drafts((), "drafters")
    found = scorable(asked, [0.0, 1.0])
    # draft_tree, multi_draft, eagle1 and the static tree of eagle3_traversal draw several.
    left = ["draft_tree", "multi_draft", "eagle1", "eagle3_traversal"]
    names = [spec.name for spec in asked.specs]
    assert [spec.name for spec in found.specs] == [name for name in names if name not in left]
    assert [name for name in names if f"{name} (" in found.left_out] == left
    assert "temperature 1 " in found.left_out
    assert "replay temperature 0 alone: --temperature 0" in found.left_out
    assert scorable(asked, [0.0]) == asked
    only = replace(asked, specs=tuple(spec for spec in asked.specs if spec.name in left))
    with pytest.raises(UsageError, match="draft_tree"):
        scorable(only, [1.0])
