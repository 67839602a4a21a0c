"""Which runs may stand in one table (case H4)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specbench.core.manifest import UNKNOWN
from specbench.errors import NotComparable, UsageError
from specbench.results.comparable import require_comparable
from tests.results.records import IDENTITY, MANIFEST


def other(**changes):
    return replace(MANIFEST, run="run-2", identity=replace(IDENTITY, **changes))


def test_another_engine_alone_is_comparable():
    require_comparable([MANIFEST, replace(other(), engine={"name": "llamacpp"})])


def test_every_difference_is_named_with_both_values():
    with pytest.raises(NotComparable) as error:
        require_comparable([MANIFEST, other(dtype="bfloat16", max_new_tokens=9)])
    assert 'dtype: "float32" != "bfloat16"' in error.value.message
    assert "max_new_tokens: 8 != 9" in error.value.message
    assert "run-1 and run-2" in error.value.message
    assert error.value.exit_code == 6


def unknown(run, **changes):
    return replace(MANIFEST, run=run, identity=replace(IDENTITY, **changes))


def test_unknown_equals_nothing_not_even_itself():
    one = unknown("run-1", weight_hash=UNKNOWN)
    with pytest.raises(NotComparable, match="weight_hash: unknown") as error:
        require_comparable([one, other(weight_hash=UNKNOWN)])
    assert "the server does not say its weights" in error.value.hint
    assert "--assume-same" in error.value.hint
    with pytest.raises(NotComparable, match="weight_hash: unknown of run-1"):
        require_comparable([one, other()])


def test_what_is_unknown_may_be_taken_as_equal_and_is_named():
    one = unknown("run-1", weight_hash=UNKNOWN, dtype=UNKNOWN)
    assert require_comparable([one, other(dtype=UNKNOWN)], True) == ("weight_hash", "dtype")
    assert require_comparable([MANIFEST, other()], True) == ()
    with pytest.raises(NotComparable) as error:
        require_comparable([one, other(max_new_tokens=9)], True)
    assert "max_new_tokens: 8 != 9" in error.value.message
    assert "unknown" not in error.value.message


def test_one_unknown_run_does_not_make_two_known_ones_equal():
    runs = [unknown("a", dtype=UNKNOWN), unknown("b"), unknown("c", dtype="bfloat16")]
    with pytest.raises(NotComparable, match=r'runs b and c .*dtype: "float32" != "bfloat16"'):
        require_comparable(runs, True)


def test_a_run_stands_beside_others_only():
    with pytest.raises(UsageError, match="the same run twice: run-1"):
        require_comparable([MANIFEST, other(), MANIFEST])
