"""Lines of traces.jsonl: exact round trips, strict JSON, nothing that is not a number (case H2)."""

from __future__ import annotations

import json
import math

import pytest

from specbench.core.trace import Counted, Tally, Window
from specbench.results.codec import (
    decode_ticks,
    decode_trace,
    decode_windows,
    encode_ticks,
    encode_trace,
    encode_windows,
    line,
    parse_line,
)
from tests.results.records import tick, trace


def test_a_trace_comes_back_as_it_was():
    before = trace(error="a\nb", resumed=2, order=1, category="x")
    after = decode_trace(parse_line(line(encode_trace(before))))
    assert after == before
    assert after.evidence.margin == [0.1 + 0.2]


def test_ticks_come_back_with_their_spans():
    before = [tick(0), tick(1, start=2_000)]
    assert decode_ticks(parse_line(line(encode_ticks("ngram", "u", before)))) == before


def test_tick_numbers_of_a_resumed_run_stay_apart():
    assert encode_trace(trace(), 100)["steps"]["tick"] == [100, 101]
    assert encode_ticks("ngram", "u", [tick(3)], 100)["index"] == [103]


def test_infinite_log_probabilities_survive_strict_json():
    before = trace()
    before.evidence.log_draft = [-math.inf]
    raw = line(encode_trace(before))
    json.loads(raw, parse_constant=lambda name: pytest.fail(name))
    assert decode_trace(parse_line(raw)) == before


def test_nan_becomes_null_and_is_named():
    before = trace()
    before.evidence.entropy = [math.nan]
    record = parse_line(line(encode_trace(before)))
    assert record["undefined"] == ["evidence.entropy"]
    assert decode_trace(record).evidence.entropy == [None]


@pytest.mark.parametrize("raw", [b'{"record":"trace","x":NaN}', b"[]", b"{}", b'{"record"', b""])
def test_anything_else_is_refused(raw):
    with pytest.raises(ValueError, match=r".*"):
        parse_line(raw)


def test_columns_of_different_length_are_refused():
    record = encode_trace(trace())
    record["steps"]["accepted"].append(1)
    with pytest.raises(ValueError, match="columns of steps differ in length"):
        decode_trace(record)


def test_totals_and_windows_come_back_as_they_were():
    tally = Tally(
        "counters", drafted_steps=60, verified=180, accepted=120, accepted_at=[50, 40, 30]
    )
    kept = trace(tally=tally, counted=Counted.USAGE, cached_tokens=3, sent_ns=1_002)
    assert decode_trace(encode_trace(kept)) == kept
    windows = [Window(1, tally), Window(2, None, "other traffic")]
    record = parse_line(line(encode_windows("ngram", "unit-a", windows)))
    assert decode_windows(record) == windows


def test_a_record_from_before_these_fields_has_their_defaults():
    record = encode_trace(trace())
    for name in ("tally", "counted", "start", "cached_tokens", "sent_ns", "effective"):
        del record[name]
    assert decode_trace(record) == trace()
