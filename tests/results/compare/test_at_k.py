"""Drafts at equal K and each at its best: which arms are held together, which prompts choose."""

import numpy as np
import pytest

from specbench.errors import UsageError
from specbench.results.compare.at_k import pairs_at
from specbench.results.compare.compare import compare
from tests.results.compare.made import arm, opened, row, write_run

ITEMS = [f"p{number:02}" for number in range(20)]
ARMS = [
    arm("plain"),
    *(arm(f"mtp-{k}", k=k) for k in (5, 1, 3)),
    *(arm(f"eagle-{k}", k=k, drafter="eagle3") for k in (1, 3, 7)),
    arm("lookup", drafter="ngram", k=4),
]
MS = {"plain": 300, "mtp-1": 200, "mtp-3": 150, "mtp-5": 180, "eagle-1": 170, "eagle-3": 160}
MS |= {"eagle-7": 140, "lookup": 250}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("at") / "r"
    rows = [row(item, name, ms=ms) for item in ITEMS for name, ms in MS.items()]
    write_run(folder, rows, arms=ARMS)
    return folder


def names(pairs):
    return [(one.arm.name, other.arm.name) for one, other, _ in pairs]


def test_equal_k_is_every_k_that_both_have(run):
    found = pairs_at(opened(run, "mtp-5"), opened(run, "eagle-1"), "equal-k")
    assert names(found) == [("mtp-1", "eagle-1"), ("mtp-3", "eagle-3")]
    assert [notes for *_, notes in found] == [["both at K = 1"], ["both at K = 3"]]


def test_one_draft_against_all_others_of_its_run(run):
    with pytest.raises(UsageError, match="no K in common: 1, 3, 5 and 4"):
        pairs_at(opened(run, "mtp-1"), opened(run), "equal-k")
    found = pairs_at(opened(run, "mtp-1"), opened(run), "best-k")
    assert names(found) == [("mtp-3", "eagle-7"), ("mtp-3", "lookup")]


def test_best_k_is_chosen_by_half_of_the_prompts_and_compared_on_the_others(run):
    ((base, new, notes),) = pairs_at(opened(run, "mtp-5"), opened(run, "eagle-1"), "best-k")
    assert (base.arm.name, new.arm.name) == ("mtp-3", "eagle-7")
    assert notes[:2] == ["base: best K = 3 of 1, 3, 5", "new: best K = 7 of 1, 3, 7"]
    assert "on 10 prompts, compared on the 10 others" in notes[2]
    assert set(base.rows["item"]) == set(new.rows["item"])
    assert len(base.rows) == 10
    # The same halves on every call and for every draft.
    ((again, *_),) = pairs_at(opened(run, "mtp-1"), opened(run, "lookup"), "best-k")
    assert set(again.rows["item"]) == set(base.rows["item"])


def test_the_prompts_that_are_compared_have_no_say(run):
    run_rows = opened(run, "mtp-5")
    ((base, *_),) = pairs_at(run_rows, opened(run, "eagle-1"), "best-k")
    held = run_rows.rows["item"].isin(base.rows["item"]) & (run_rows.rows["arm"] == "mtp-1")
    run_rows.rows.loc[held, "decode_ns"] /= 1000
    ((same, *_),) = pairs_at(run_rows, opened(run, "eagle-1"), "best-k")
    assert same.arm.name == "mtp-3"
    run_rows.rows.loc[~held & (run_rows.rows["arm"] == "mtp-1"), "decode_ns"] /= 1000
    ((other, *_),) = pairs_at(run_rows, opened(run, "eagle-1"), "best-k")
    assert other.arm.name == "mtp-1"


def test_luck_that_chose_is_not_in_the_figure(tmp_path):
    """Two arms that take equally long: the better one by luck is not faster when compared."""
    arms = [arm("plain"), arm("a", k=1), arm("b", k=2), arm("c", drafter="ngram", k=2)]
    ratios = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        rows = [
            row(item, name, ms=100 * float(np.exp(rng.normal(0, 0.2))))
            for item in ITEMS
            for name in ("a", "b", "c")
        ]
        write_run(tmp_path / f"r{seed}", rows, arms=arms)
        folder = tmp_path / f"r{seed}"
        ((one, other, _),) = pairs_at(opened(folder, "a"), opened(folder, "c"), "best-k")
        ratios.append(np.log(one.rows["decode_ns"].sum() / other.rows["decode_ns"].sum()))
    # A side of 10 prompts has a deviation of 20 % / sqrt(10): of two sides and six runs 3.7 %.
    assert abs(np.mean(ratios)) < 2 * 0.037


def test_temperatures_choose_by_themselves(tmp_path):
    arms = [arm("plain"), arm("a", k=1), arm("b", k=2), arm("c", drafter="ngram", k=2)]
    rows = [
        row(item, name, ms=ms, temperature=t)
        for item in ITEMS
        for t, times in ((0.0, (100, 120)), (1.0, (120, 100)))
        for name, ms in zip("abc", (*times, 110), strict=True)
    ]
    write_run(tmp_path / "r", rows, arms=arms)
    found = pairs_at(opened(tmp_path / "r", "a"), opened(tmp_path / "r", "c"), "best-k")
    assert names(found) == [("a", "c"), ("b", "c")]
    compared = compare(
        opened(tmp_path / "r", "a"),
        [opened(tmp_path / "r", "c")],
        measures=["itl"],
        by="temperature",
        at="best-k",
    )
    assert [one.parts[0].group.temperature for one in compared] == [0.0, 1.0]
    assert compared[0].parts[0].judged[0].contrast.ratio.value == pytest.approx(1.1)
    assert compared[0].notes[0] == "base: best K = 1 of 1, 2"


def test_two_runs_by_the_draft_they_have_in_common(run, tmp_path):
    rows = [row(item, name, ms=ms) for item in ITEMS for name, ms in MS.items()]
    write_run(tmp_path / "s", rows, arms=ARMS)
    found = pairs_at(opened(run), opened(tmp_path / "s"), "equal-k")
    assert len(found) == 3 + 3 + 1
    assert all(one.arm == other.arm for one, other, _ in found)


@pytest.mark.parametrize(
    ("base", "new", "at", "says"),
    [
        ("", "", "best-k", "which against which"),
        ("mtp-1", "mtp-3", "best-k", "which against which"),
        ("lookup", "lookup", "equal-k", "which against which"),
        ("lookup", "eagle-1", "equal-k", "no K in common: 4 and 1, 3, 7"),
    ],
)
def test_what_cannot_be_asked(run, base, new, at, says):
    with pytest.raises(UsageError, match=says):
        pairs_at(opened(run, base), opened(run, new), at)
