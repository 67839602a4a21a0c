"""Which runs may stand in one table (case H4)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specbench.core.manifest import UNKNOWN
from specbench.errors import NotComparable
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


def test_unknown_equals_nothing_not_even_itself():
    one = replace(MANIFEST, identity=replace(IDENTITY, weight_hash=UNKNOWN))
    with pytest.raises(NotComparable, match="weight_hash: unknown"):
        require_comparable([one, other(weight_hash=UNKNOWN)])
