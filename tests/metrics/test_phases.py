import pytest

from specbench.core.arm import ArmMemory
from specbench.core.quantity import Absence
from specbench.core.trace import Lane, Span, Tick, TickKind
from specbench.metrics.memory import memory
from specbench.metrics.phases import host_share, phases, span_coverage
from tests.metrics.traces import MS


def tick(*spans, kind=TickKind.DECODE, end=20):
    made = tuple(Span(name, lane, start * MS, stop * MS) for name, lane, start, stop in spans)
    return Tick(0, kind, 1, 4, 4, False, 0, end * MS, made)


DECODE = tick(
    ("draft", Lane.HOST, 0, 3),
    ("draft", Lane.DEVICE, 1, 4),
    ("verify", Lane.DEVICE, 4, 14),
    ("accept", Lane.HOST, 12, 16),
    ("commit", Lane.HOST, 16, 19),
)


def test_overlapping_lanes_are_counted_once():
    table = phases([DECODE, DECODE])
    assert {name: q.number() for name, q in table.items()} == {
        "draft": 8,
        "verify": 20,
        "accept": 8,
        "commit": 6,
        "unattributed": 2,
    }
    assert span_coverage([DECODE]).number() == pytest.approx(19 / 20)


def test_host_share_is_what_no_forward_covers_while_decoding():
    prefill = tick(("prefill", Lane.DEVICE, 0, 5), kind=TickKind.PREFILL)
    assert host_share([prefill, DECODE]).number() == pytest.approx(7 / 20)


def test_no_ticks_and_no_spans_are_not_available():
    for ticks in ([], [tick()]):
        assert phases(ticks)["unattributed"].value.absence is Absence.NOT_AVAILABLE
        assert span_coverage(ticks).value.absence is Absence.NOT_AVAILABLE
        assert host_share(ticks).value.absence is Absence.NOT_AVAILABLE


def test_memory_rows():
    table = memory(ArmMemory(target_weights=100, peak=0))
    assert table["target_weights"].number() == 100
    assert table["peak"].number() == 0
    assert not table["draft_weights"].known
    assert not any(q.known for q in memory(None).values())
