"""Gates over hand-written items: outcomes at the border, exact counts, A/A noise, what is asked."""

import math

import numpy as np
import pytest

from specbench.errors import NotComparable, UsageError
from specbench.results.gate.decide import Outcome
from specbench.results.gate.gate import gate
from specbench.results.gate.noise import Noise
from specbench.results.gate.rules import DEFAULT, Check, GateRules, checks_of, read_rules
from tests.results.compare.made import arm, opened, row, summary_row, write_run

ITEMS = [f"p{number:02}" for number in range(24)]
PASS, FAIL, OPEN = Outcome.PASS, Outcome.FAIL, Outcome.INCONCLUSIVE


def rules(*checks, **changes):
    return GateRules(check=[Check(metric=m, allow=a) for m, a in checks], **changes)


def written(folder, *, slow=1.0, noise=0.02, seed=0, committed=12, plain=True, **options):
    """A run whose arm ``a`` takes 100 ms a request, ``slow`` times as long, plain 200 ms."""
    rng = np.random.default_rng(seed)
    rows = []
    for item in ITEMS:
        jitter = [float(np.exp(rng.normal(0, noise))) for _ in range(2)]
        if plain:
            rows.append(row(item, "plain", ms=200 * jitter[0], steps=12, committed=12))
        rows.append(row(item, "a", ms=100 * slow * jitter[1], steps=6, committed=committed))
    summary = options.pop("summary", [summary_row("a", "identical")])
    write_run(folder, rows, summary=summary, **options)
    return opened(folder)


def outcomes(found):
    return {check.what: check.outcome for check in found[0].checks}


@pytest.fixture
def base(tmp_path):
    return written(tmp_path / "base")


@pytest.mark.parametrize(
    ("slow", "outcome"), [(0.8, PASS), (1.0, PASS), (1.02, PASS), (1.055, OPEN), (1.2, FAIL)]
)
def test_speedup_at_both_sides_of_what_is_allowed(tmp_path, base, slow, outcome):
    new = written(tmp_path / "new", slow=slow, seed=1)
    found = gate(base, new, rules(("speedup", 0.05)))
    assert outcomes(found)["speedup"] is outcome
    assert found[0].outcome is outcome
    check = found[0].checks[-1]
    assert check.ratio == pytest.approx(1 / slow, rel=0.02)
    assert check.allowed == 0.95


def test_a_ratio_of_which_less_is_better(tmp_path):
    rows = [row(item, name, first=ms + n) for n, item in enumerate(ITEMS) for name, ms in AB]
    write_run(
        tmp_path / "r", rows, summary=[summary_row("a", "passed"), summary_row("b", "passed")]
    )
    pair = opened(tmp_path / "r", "a"), opened(tmp_path / "r", "b")
    assert outcomes(gate(*pair, rules(("ttft", 0.1))))["ttft"] is FAIL
    assert outcomes(gate(*pair, rules(("ttft", 0.3))))["ttft"] is PASS
    assert outcomes(gate(*reversed(pair), rules(("ttft", 0.0001))))["ttft"] is PASS


AB = (("a", 50.0), ("b", 62.0))


class TestExactCounts:
    """Counts that A/A runs repeat exactly need no interval, and may not change at all."""

    def test_the_same_counts_pass_at_a_tolerance_of_0(self, tmp_path, base):
        again = [written(tmp_path / "again", seed=2)]
        new = written(tmp_path / "new", seed=3)
        found = gate(base, new, rules(("accept_length", 0.0)), again=again)
        assert outcomes(found)["accept_length"] is PASS
        assert found[0].again == 1

    def test_one_token_less_fails(self, tmp_path, base):
        again = [written(tmp_path / "again", seed=2)]
        new = written(tmp_path / "new", committed=12)
        place = (new.rows["item"] == "p07") & (new.rows["arm"] == "a")
        new.rows.loc[place, ["committed", "accepted"]] -= 1
        check = gate(base, new, rules(("accept_length", 0.0)), again=again)[0].checks[-1]
        assert check.outcome is FAIL
        assert check.ratio == pytest.approx(1 - 1 / (12 * 24))
        assert "A/A runs count the same in every request" in check.why
        # What is allowed is allowed, and more is no fault.
        assert gate(base, new, rules(("accept_length", 0.01)), again=again)[0].outcome is PASS
        new.rows.loc[place, ["committed", "accepted"]] += 2
        assert gate(base, new, rules(("accept_length", 0.0)), again=again)[0].outcome is PASS

    def test_without_them_a_tolerance_of_0_decides_nothing(self, tmp_path, base):
        new = written(tmp_path / "new", committed=12)
        new.rows.loc[new.rows["item"] == "p07", "committed"] -= 1
        check = gate(base, new, rules(("accept_length", 0.0)))[0].checks[-1]
        assert check.outcome is OPEN
        assert "no change at all" in check.why


class TestTimesOfTwoOccasions:
    def test_need_aa_runs(self, tmp_path, base):
        check = gate(base, written(tmp_path / "new", seed=4), rules(("itl", 0.1)))[0].checks[-1]
        assert check.outcome is OPEN
        assert "--calibrate" in check.why

    @pytest.mark.parametrize(
        ("drift", "slow", "outcome"),
        [(0.005, 1.0, PASS), (0.005, 1.4, FAIL), (0.08, 1.0, OPEN), (0.08, 1.4, OPEN)],
    )
    def test_are_held_against_how_much_aa_runs_differ(self, tmp_path, base, drift, slow, outcome):
        again = [
            written(tmp_path / f"again{n}", seed=n, slow=math.exp(drift * (-1) ** n))
            for n in range(1, 5)
        ]
        new = written(tmp_path / "new", seed=9, slow=slow)
        found = gate(base, new, rules(("itl", 0.1)), again=again)
        assert outcomes(found)["itl"] is outcome

    def test_the_band_is_students_t_over_the_runs(self):
        # Changes of +1 %, -1 %: root mean square 1 %, t(0.975, 2) = 4.303.
        assert Noise((0.01, -0.01), False).width(0.95) == pytest.approx(0.04303, rel=1e-3)
        assert Noise((), False).width(0.95) == 0.0


class TestAlways:
    def test_a_failed_request_fails(self, tmp_path, base):
        new = written(tmp_path / "new")
        lost = (new.rows["item"] == "p03") & (new.rows["arm"] == "a")
        new.rows.loc[lost, "output_tokens"] = np.nan
        new.rows.loc[lost, "error"] = "out of memory"
        found = gate(base, new, DEFAULT)
        assert outcomes(found)["success"] is FAIL
        assert "out of memory" in found[0].checks[0].why
        some = GateRules(check=DEFAULT.check, allow_failures=0.05)
        assert outcomes(gate(base, new, some))["success"] is PASS

    @pytest.mark.parametrize(
        ("word", "outcome"),
        [
            ("identical", PASS),
            ("tie 2/24", PASS),
            ("passed", PASS),
            ("MISMATCH 1/24", FAIL),
            ("FAILED", FAIL),
            ("too few", OPEN),
            ("differs 1/24", OPEN),
            ("", OPEN),
        ],
    )
    def test_every_word_of_a_summary(self, tmp_path, base, word, outcome):
        new = written(tmp_path / "new", summary=[summary_row("a", word)])
        assert outcomes(gate(base, new, rules(("accept_length", 0.02))))["fidelity"] is outcome

    def test_a_rule_that_is_no_longer_lossless_fails(self, tmp_path, base):
        arms = [arm("plain"), arm("a", rule="lenient", lossless="lossy")]
        new = written(tmp_path / "new", arms=arms, summary=[summary_row("a", "not seen")])
        found = gate(base, new, DEFAULT)
        assert outcomes(found)["fidelity"] is FAIL
        assert "lossy" in next(c for c in found[0].checks if c.what == "fidelity").why

    def test_one_failed_check_fails_the_gate_and_one_open_one_leaves_it_open(self, tmp_path, base):
        worse = written(tmp_path / "worse", slow=2, summary=[summary_row("a", "")])
        assert gate(base, worse, DEFAULT)[0].outcome is FAIL
        still = written(tmp_path / "still", seed=5, summary=[summary_row("a", "")])
        assert gate(base, still, DEFAULT)[0].outcome is OPEN


def test_other_measurements_are_not_comparable(tmp_path, base):
    from dataclasses import replace

    from tests.results.records import IDENTITY

    new = written(tmp_path / "new", identity=replace(IDENTITY, max_new_tokens=99))
    with pytest.raises(NotComparable, match="max_new_tokens"):
        gate(base, new, DEFAULT)
    assert gate(base, new, DEFAULT, lifted=["max_new_tokens"])[0].notes == (
        "allowed to differ: max_new_tokens",
    )


def test_fifty_gates_of_nothing_raise_no_alarm_and_most_pass(tmp_path):
    found = []
    for seed in range(50):
        one = written(tmp_path / f"a{seed}", seed=1000 + seed, noise=0.025)
        other = written(tmp_path / f"b{seed}", seed=2000 + seed, noise=0.025)
        found.append(gate(one, other, rules(("speedup", 0.0001), ("speedup", 0.05)))[0])
    outcome = [[check.outcome for check in one.checks[-2:]] for one in found]
    assert not any(FAIL in both for both in outcome)
    # The log ratio has a deviation of 2.5 % x 2 / sqrt(24) = 1 %, and 5.1 % less is allowed: its
    # interval ends above that unless the ratio is 3 deviations down.
    assert sum(both[1] is PASS for both in outcome) >= 48


class TestRules:
    def test_a_file(self, tmp_path):
        path = tmp_path / "gate.toml"
        path.write_text(
            "schema_version = 1\nalpha = 0.01\n"
            '[[check]]\nmetric = "itl"\nallow = 0.1\nby = "suite"\n'
        )
        found = read_rules(path)
        assert (found.alpha, found.allow_failures) == (0.01, 0)
        assert found.check == [Check(metric="itl", allow=0.1, by="suite")]

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("check = 1", "check = 1"),
            ('[[check]]\nmetric = "spedup"\nallow = 0.1', "did you mean speedup"),
            ('[[check]]\nmetric = "itl"\nallow = 1.5', "check.0.allow = 1.5"),
            ('[[check]]\nmetric = "itl"\nallow = 0.1\nbie = 1', "check.0.bie"),
            ("not toml", "not a TOML file"),
            ("alpha = 0.2", "alpha = 0.2"),
        ],
    )
    def test_what_is_wrong_is_named(self, tmp_path, text, says):
        path = tmp_path / "gate.toml"
        path.write_text(text)
        with pytest.raises(UsageError) as refused:
            read_rules(path)
        assert says in refused.value.message
        with pytest.raises(UsageError, match="cannot be read"):
            read_rules(tmp_path / "none.toml")

    def test_flags(self):
        assert checks_of(("accept_length=2%", "itl=0.1")) == [
            Check(metric="accept_length", allow=0.02),
            Check(metric="itl", allow=0.1),
        ]

    @pytest.mark.parametrize("word", ["itl", "itl=", "itl=x", "itl=200%", "nothing=1%"])
    def test_flags_that_say_nothing(self, word):
        with pytest.raises(UsageError, match="--check"):
            checks_of((word,))
