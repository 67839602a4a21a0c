"""Comparisons of hand-written items: values by hand sums, joins, splits, refusals, verdicts."""

from dataclasses import replace

import pytest

from specbench.errors import NotComparable, PrerequisiteError, UsageError
from specbench.results.compare.compare import compare
from specbench.results.compare.measures import DEFAULT, MEASURES, SPEEDUP
from specbench.results.compare.sides import matched
from specbench.results.compare.verdict import Verdict
from specbench.results.schema import ResultError
from tests.results.compare.made import arm, opened, row, summary_row, write_run
from tests.results.records import IDENTITY

ITEMS = [f"p{number:02}" for number in range(12)]
EVERYTHING = (*MEASURES, SPEEDUP)


def run(base, new, by="temperature", measures=DEFAULT, **options):
    return compare(base, [new], measures=measures, by=by, **options)


def by_measure(compared, group="all"):
    part = next(part for part in compared.parts if part.group.name == group)
    return {one.contrast.measure: one for one in part.judged}


@pytest.fixture
def one_run(tmp_path):
    """Plain, and two drafts: b commits half as many tokens again in the same steps."""
    rows = []
    for number, item in enumerate(ITEMS):
        steps = 4 + number % 3
        rows += [
            row(item, "plain", committed=12, steps=12, ms=120 + number, proposed=0, judged=0),
            row(item, "a", committed=2 * steps, steps=steps, ms=10.0 * steps, first=50),
            row(item, "b", committed=3 * steps, steps=steps, ms=10.0 * steps, first=60),
        ]
    write_run(tmp_path / "r", rows)
    return tmp_path / "r"


def test_values_are_ratios_of_totals(one_run):
    (found,) = run(opened(one_run, "a"), opened(one_run, "b"), measures=EVERYTHING)
    assert (found.base, found.new, found.requests) == ("r:a", "r:b", 12)
    measured = by_measure(found)
    steps = sum(4 + number % 3 for number in range(12))
    assert steps == 60
    values = {
        name: (one.contrast.base.value, one.contrast.new.value) for name, one in measured.items()
    }
    assert values["accept_length"] == (2.0, 3.0)
    assert values["accept_rate"] == (pytest.approx(1 / 3), pytest.approx(2 / 3))
    # 600 ms for 120 tokens against 600 ms for 180.
    assert values["itl"] == (pytest.approx(5.0), pytest.approx(10 / 3))
    assert values["ttft"] == (50.0, 60.0)
    assert values["tokens_per_s_user"] == (pytest.approx(200.0), pytest.approx(300.0))
    # Output tokens with the prefill's own; time from the request's start.
    assert values["tokens_per_s_e2e"] == (pytest.approx(132 / 1.2), pytest.approx(192 / 1.32))
    # Plain: sum of 120 .. 131 ms for 144 tokens.
    plain = sum(120 + n for n in range(12)) / 144
    assert values["speedup"] == (pytest.approx(plain / 5), pytest.approx(plain / (10 / 3)))
    ratios = {name: one.contrast.ratio.value for name, one in measured.items()}
    assert ratios["accept_length"] == 1.5
    assert ratios["itl"] == pytest.approx(2 / 3)
    assert ratios["speedup"] == pytest.approx(1.5)


def test_better_and_worse_by_the_direction_of_each_measure(one_run):
    verdicts = {
        name: one.verdict
        for name, one in by_measure(
            run(opened(one_run, "a"), opened(one_run, "b"), measures=EVERYTHING)[0]
        ).items()
    }
    assert verdicts == {
        "accept_length": Verdict.BETTER,
        "accept_rate": Verdict.BETTER,
        "itl": Verdict.BETTER,
        "ttft": Verdict.WORSE,
        "tokens_per_s_user": Verdict.BETTER,
        "tokens_per_s_e2e": Verdict.BETTER,
        "speedup": Verdict.BETTER,
    }
    turned = by_measure(run(opened(one_run, "b"), opened(one_run, "a"))[0])
    assert turned["accept_length"].verdict is Verdict.WORSE
    assert turned["ttft"].verdict is Verdict.BETTER


def test_the_swap_test_is_exact_and_adjusted_for_the_measures_of_the_group(one_run):
    measured = by_measure(run(opened(one_run, "a"), opened(one_run, "b"), measures=["ttft"])[0])
    # All 12 prompts point one way: 2 of 2^12 swaps are as extreme.
    assert measured["ttft"].contrast.p == pytest.approx(2 / 2**12)
    assert measured["ttft"].p == measured["ttft"].contrast.p
    both = by_measure(run(opened(one_run, "a"), opened(one_run, "b"), measures=["ttft", "itl"])[0])
    assert both["ttft"].p == pytest.approx(2 * both["ttft"].contrast.p)


def test_equal_sides_show_no_difference(tmp_path):
    rows = [row(item, name) for item in ITEMS for name in ("plain", "a", "b")]
    write_run(tmp_path / "r", rows)
    for one in by_measure(
        run(opened(tmp_path / "r", "a"), opened(tmp_path / "r", "b"))[0]
    ).values():
        assert one.verdict is Verdict.NO_DIFFERENCE
        assert (one.contrast.ratio.value, one.p) == (1.0, 1.0)


def test_noise_shows_no_difference_and_says_what_would_have_been_seen(tmp_path):
    rows = []
    for number, item in enumerate(ITEMS):
        bump = (-1) ** number * (1 + number % 4)
        rows += [row(item, "a", ms=100 + bump), row(item, "b", ms=100 - bump)]
    write_run(tmp_path / "r", rows)
    one = by_measure(run(opened(tmp_path / "r", "a"), opened(tmp_path / "r", "b"))[0])["itl"]
    assert one.verdict is Verdict.NO_DIFFERENCE
    assert 0.005 < one.contrast.detectable.value < 0.1


def test_two_prompts_decide_nothing(tmp_path):
    rows = [row(item, name, ms=ms) for item in ITEMS[:2] for name, ms in (("a", 100), ("b", 200))]
    write_run(tmp_path / "r", rows)
    one = by_measure(run(opened(tmp_path / "r", "a"), opened(tmp_path / "r", "b"))[0])["itl"]
    assert one.verdict is Verdict.UNDECIDED
    assert "2 independent units, 3 are needed" in one.why


def test_turns_and_repeats_of_a_prompt_are_one_unit(tmp_path):
    rows = [
        row(item, name, turn=turn, repeat=repeat, ms=ms + number)
        for number, item in enumerate(ITEMS[:4])
        for turn in (0, 1)
        for repeat in (0, 1)
        for name, ms in (("a", 100), ("b", 120))
    ]
    write_run(tmp_path / "r", rows)
    found = run(opened(tmp_path / "r", "a"), opened(tmp_path / "r", "b"))[0]
    assert found.requests == 16
    assert by_measure(found)["itl"].contrast.ratio.n == 4


def test_blocks_are_the_units_of_times_and_prompts_those_of_counts(tmp_path):
    rows = [
        row(item, name, unit=f"block-{number // 3}", ms=ms + number, committed=10 + number % 2)
        for number, item in enumerate(ITEMS)
        for name, ms in (("a", 100), ("b", 120))
    ]
    write_run(tmp_path / "r", rows)
    measured = by_measure(run(opened(tmp_path / "r", "a"), opened(tmp_path / "r", "b"))[0])
    assert measured["itl"].contrast.ratio.n == 4
    assert measured["accept_length"].contrast.base.n == 12


def test_what_one_side_lacks_is_left_out_and_said(tmp_path):
    rows = [row(item, name) for item in ITEMS for name in ("a", "b")]
    rows = [one for one in rows if (one["item"], one["arm"]) != ("p00", "b")]
    rows = [one for one in rows if (one["item"], one["arm"]) not in {("p01", "a"), ("p02", "a")}]
    # Unfinished, and another prompt after another first answer.
    rows[-1] |= {"finish": "error", "error": "boom", "output_tokens": ""}
    rows[-3] |= {"prompt_sha256": "other"}
    write_run(tmp_path / "r", rows)
    found = run(opened(tmp_path / "r", "a"), opened(tmp_path / "r", "b"))[0]
    assert found.requests == 12 - 3 - 1 - 1
    assert found.notes == (
        "2 requests of the base have no partner and are left out",
        "2 requests of the new one have no partner and are left out",
        "1 requests had another prompt, after another earlier answer and are left out",
    )


def test_partners_are_found_wherever_their_rows_stand(tmp_path):
    rows = [row(i, n, committed=10 + k, steps=5 + k) for k, i in enumerate(ITEMS) for n in "ab"]
    # The same sums on both sides, and the same requests if each is held against its own partner.
    apart = [one for one in rows if one["arm"] == "a"]
    apart += reversed([one for one in rows if one["arm"] == "b"])
    write_run(tmp_path / "r", apart)
    measured = by_measure(run(opened(tmp_path / "r", "a"), opened(tmp_path / "r", "b"))[0])
    found = measured["accept_length"].contrast
    assert (found.ratio.value, found.p) == (1.0, 1.0)
    assert found.ratio.method == "no interval: equal on all 12 units"


def test_splits_keep_a_cliff_in_sight(tmp_path):
    rows = []
    for number, item in enumerate(ITEMS):
        category = "long" if number < 3 else "short"
        tokens = 5000 if number < 3 else 100
        slow = 300 if number < 3 else 90
        rows += [
            row(item, name, category=category, prompt_tokens=tokens, ms=ms + number / 10)
            for name, ms in (("a", 100), ("b", slow))
        ]
    write_run(tmp_path / "r", rows)
    sides = opened(tmp_path / "r", "a"), opened(tmp_path / "r", "b")
    for by, worse, better in (
        ("category", "suite/long", "suite/short"),
        ("context", "up to 16384 tokens", "up to 1024 tokens"),
    ):
        (found,) = run(*sides, by=by, measures=["itl"])
        ratios = {p.group.name: p.judged[0].contrast.ratio.value for p in found.parts}
        assert next(iter(ratios)) == "all"
        assert ratios[worse] == pytest.approx(3, rel=0.01)
        assert ratios[better] == pytest.approx(0.9, rel=0.01)
    assert [p.group.name for p in run(*sides, by="suite")[0].parts] == ["all"]


def test_temperatures_and_loads_are_never_pooled(tmp_path):
    rows = [
        row(item, name, temperature=temperature, concurrency=load)
        for item in ITEMS
        for temperature, load in ((0.0, 1), (0.7, 1), (0.7, 4))
        for name in ("a", "b")
    ]
    write_run(tmp_path / "r", rows)
    (found,) = run(opened(tmp_path / "r", "a"), opened(tmp_path / "r", "b"))
    places = [(part.group.temperature, part.group.concurrency) for part in found.parts]
    assert places == [(0.0, 1), (0.7, 1), (0.7, 4)]


def test_without_loops_of_plain(tmp_path):
    rows = [
        row(item, name, degenerate=int(number < 4 and name == "plain"), ms=ms)
        for number, item in enumerate(ITEMS)
        for name, ms in (("plain", 200), ("a", 100), ("b", 50 if number < 4 else 100))
    ]
    write_run(tmp_path / "r", rows)
    (found,) = run(opened(tmp_path / "r", "a"), opened(tmp_path / "r", "b"), measures=["itl"])
    ratios = {p.group.name: p.judged[0].contrast.ratio.value for p in found.parts}
    assert ratios == {"all": pytest.approx((4 * 50 + 8 * 100) / 1200), "without loops": 1.0}


def test_accept_rates_of_trees_are_not_compared(tmp_path):
    rows = [row(item, name, steps=steps) for item in ITEMS for name, steps in (("a", 5), ("b", 4))]
    write_run(tmp_path / "r", rows, arms=[arm("a"), arm("b", tree="nodes=8")])
    measured = by_measure(run(opened(tmp_path / "r", "a"), opened(tmp_path / "r", "b"))[0])
    assert "accept_rate" not in measured
    assert measured["accept_length"].contrast.new.value == 2.5


def test_missing_counts_are_no_zeros(tmp_path):
    silent = {"steps": "", "committed": "", "judged": "", "accepted": ""}
    rows = [row(item, name) | (silent if name == "b" else {}) for item in ITEMS for name in "ab"]
    write_run(tmp_path / "r", rows)
    measured = by_measure(run(opened(tmp_path / "r", "a"), opened(tmp_path / "r", "b"))[0])
    assert measured["accept_length"].verdict is Verdict.NOT_COMPARABLE
    assert "does not tell steps" in measured["accept_length"].why
    assert measured["speedup"].verdict is Verdict.NOT_COMPARABLE
    assert "no plain arm" in measured["speedup"].why
    assert measured["itl"].verdict is Verdict.NO_DIFFERENCE


class TestTwoRuns:
    @pytest.fixture
    def two(self, tmp_path):
        """A new run on a machine that took twice as long, for an arm that is as good as before."""
        for name, slow in (("old", 1), ("new", 2)):
            rows = [
                row(item, which, ms=slow * (ms + number), committed=10)
                for number, item in enumerate(ITEMS)
                for which, ms in (("plain", 200), ("a", 100))
            ]
            write_run(tmp_path / name, rows)
        return opened(tmp_path / "old"), opened(tmp_path / "new")

    def test_speedup_holds_each_against_its_own_plain(self, two):
        (found,) = run(*two)
        measured = by_measure(found)
        assert measured["itl"].verdict is Verdict.WORSE
        assert measured["speedup"].contrast.ratio.value == pytest.approx(1.0)
        assert measured["speedup"].verdict is Verdict.NO_DIFFERENCE
        assert found.notes == (
            "temperature 0: plain itself took 2.00 times as long per token in the new run: read "
            "speedup, where each arm is held against its own plain, not itl, ttft and tokens/s",
        )

    def test_arms_of_one_name_are_held_against_each_other(self, two):
        assert [(b.arm.name, n.arm.name) for b, n in matched(*two)] == [("a", "a")]

    def test_other_identities_are_refused_by_key_unless_allowed(self, two):
        other = replace(two[1].manifest, identity=replace(IDENTITY, dtype="bfloat16", device="gpu"))
        changed = replace(two[1], manifest=other)
        with pytest.raises(NotComparable, match=r"dtype.*device") as refused:
            run(two[0], changed)
        assert "--allow" in refused.value.hint
        with pytest.raises(NotComparable) as refused:
            run(two[0], changed, allowed=["dtype"])
        assert "dtype" not in refused.value.message
        (found,) = run(two[0], changed, allowed=["dtype", "device"])
        assert found.notes[0] == "allowed to differ: dtype, device"

    @pytest.mark.parametrize("key", ["engine", "dtyp", "dtype.bits", "samplings.top_p"])
    def test_a_key_that_no_identity_has_is_refused(self, two, key):
        with pytest.raises(UsageError, match="is no key of a run's identity") as refused:
            run(*two, allowed=[key])
        assert "dtype" in refused.value.hint

    def test_nothing_in_common(self, two):
        rows = two[1].rows.assign(item=[f"x{n}" for n in range(len(two[1].rows))])
        with pytest.raises(NotComparable, match="no request in common"):
            run(two[0], replace(two[1], rows=rows))

    def test_verdicts_on_the_output_come_from_the_runs(self, tmp_path):
        rows = [row(item, "a") for item in ITEMS]
        for name, word in (("old", "identical"), ("new", "MISMATCH 2/12"), ("third", "")):
            write_run(tmp_path / name, rows, summary=[summary_row("a", word)])
        found = {}
        for new in ("old", "new", "third"):
            for base in ("old", "new"):
                if base != new:
                    (one,) = run(opened(tmp_path / base), opened(tmp_path / new))
                    found[base, new] = one.parts[0].fidelity.verdict
        assert found == {
            ("old", "new"): Verdict.WORSE,
            ("new", "old"): Verdict.BETTER,
            ("old", "third"): Verdict.UNDECIDED,
            ("new", "third"): Verdict.UNDECIDED,
        }


class TestWhichArms:
    @pytest.fixture
    def folder(self, tmp_path):
        rows = [row("p", name) for name in ("plain", "a", "b", "c")]
        write_run(tmp_path / "r", rows)
        return tmp_path / "r"

    def names(self, base, new):
        return [(b.arm.name, n.arm.name) for b, n in matched(base, new)]

    def test_one_arm_against_all_others_of_its_run(self, folder):
        assert self.names(opened(folder, "a"), opened(folder)) == [("a", "b"), ("a", "c")]

    def test_a_run_against_itself(self, folder):
        with pytest.raises(UsageError, match="against itself"):
            matched(opened(folder), opened(folder))

    def test_the_only_two_there_are(self, tmp_path):
        write_run(tmp_path / "one", [row("p", "x"), row("p", "plain")])
        write_run(tmp_path / "two", [row("p", "y"), row("p", "plain")])
        assert self.names(opened(tmp_path / "one"), opened(tmp_path / "two")) == [("x", "y")]

    def test_which_against_which(self, folder, tmp_path):
        write_run(tmp_path / "two", [row("p", "y"), row("p", "plain")])
        with pytest.raises(UsageError, match="which against which") as refused:
            matched(opened(folder), opened(tmp_path / "two"))
        assert "RUN:ARM" in refused.value.hint

    def test_no_such_arm(self, folder):
        with pytest.raises(UsageError, match="has no arm 'd'"):
            opened(folder, "d")

    def test_no_such_run(self, folder):
        with pytest.raises(PrerequisiteError, match="no run"):
            opened(folder.parent / "missing", "a")


class TestDamagedFiles:
    @pytest.fixture
    def folder(self, tmp_path):
        write_run(tmp_path / "r", [row("p", "a"), row("q", "a")])
        return tmp_path / "r"

    @pytest.mark.parametrize(
        ("old", "new", "says"),
        [
            ("decode_ns,", "other,", "lacks 1 columns, among them decode_ns"),
            ("100000000", "fast", "decode_ns = fast is no number"),
            ("100000000", "inf", "decode_ns = inf is no number"),
            (",q,", ",p,", "a record is there twice: suite suite, item p"),
        ],
    )
    def test_hand_edited(self, folder, old, new, says):
        items = folder / "items.csv"
        items.write_text(items.read_text().replace(old, new))
        with pytest.raises(ResultError, match=says) as refused:
            opened(folder)
        assert "specbench rescore" in refused.value.hint

    def test_empty(self, folder):
        (folder / "items.csv").write_text("")
        with pytest.raises(ResultError, match="cannot be read"):
            opened(folder)

    def test_not_finished(self, folder):
        (folder / "items.csv").unlink()
        with pytest.raises(ResultError, match="was not finished"):
            opened(folder)

    def test_cells_that_would_break_a_csv_are_read_back(self, tmp_path):
        odd = 'a, "b"\n=c'
        write_run(tmp_path / "odd", [row("p", "a", category=odd, error="'=1")])
        assert opened(tmp_path / "odd").rows.iloc[0]["category"] == odd
