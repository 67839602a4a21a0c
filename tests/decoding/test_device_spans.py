"""Device spans from marks in a queue, on a device made of two clocks."""

import pytest

from specbench.core.trace import Lane, Span, Tick, TickKind
from specbench.decoding.device_spans import Marks, OverlappedRecorder, shared_out
from specbench.metrics.phases import hidden_share, host_share, phases

MS = 1_000_000


class Device:
    """A queue beside a host: work takes its time on the device and none on the host."""

    def __init__(self):
        self.now = 5_000 * MS
        self.free = self.now
        self.waits = 0

    def work(self, ms):
        self.free = max(self.free, self.now) + ms * MS

    def host(self, ms):
        self.now += ms * MS

    def wait(self):
        self.waits += 1
        self.now = max(self.now, self.free)

    def mark(self):
        return Mark(self)

    def recorder(self, spans=True):
        return OverlappedRecorder(lambda: self.now, Marks(self.mark, self.wait), spans)


class Mark:
    def __init__(self, device):
        self._device = device
        self.at = None

    def record(self):
        self.at = max(self._device.free, self._device.now)

    def elapsed_time(self, end_event):
        return (end_event.at - self.at) / MS


def steps(device, recorder, count):
    """Verify for 6 ms, queue 4 ms of refill, wait for the verify, and commit for 3 ms."""
    for _ in range(count):
        recorder.begin(TickKind.DECODE)
        with recorder.span("verify"):
            device.host(1)
            device.work(6)
            done = device.free
        with recorder.span("refill"):
            device.work(4)
            device.now = max(device.now, done)
        with recorder.span("commit"):
            device.host(3)
        recorder.end(1, 2)


def lanes(tick, phase):
    return {span.lane: (span.start_ns, span.end_ns) for span in tick.spans if span.phase == phase}


def test_spans_say_when_work_was_queued_and_when_it_ran():
    device = Device()
    recorder = device.recorder()
    steps(device, recorder, 1)
    (tick,) = recorder.drain()
    start = 5_000 * MS
    # The host queues for 1 ms, waits until the device has verified at 7 ms, and commits until 10.
    assert lanes(tick, "verify")[Lane.HOST] == (start, start + 1 * MS)
    assert lanes(tick, "refill")[Lane.HOST] == (start + 1 * MS, start + 7 * MS)
    assert lanes(tick, "commit")[Lane.HOST] == (start + 7 * MS, start + 10 * MS)
    assert lanes(tick, "verify")[Lane.DEVICE] == (start, start + 7 * MS)
    # The refill runs from 7 to 11 ms and the tick ends at 10.
    assert lanes(tick, "refill")[Lane.DEVICE] == (start + 7 * MS, start + 10 * MS)
    assert (tick.start_ns, tick.end_ns) == (start, start + 10 * MS)


def test_work_that_outlives_its_tick_belongs_to_the_next_one():
    device = Device()
    recorder = device.recorder()
    steps(device, recorder, 3)
    ticks = recorder.drain()
    assert device.waits == 2  # before the first mark, and to read them
    refills = [
        (span.start_ns, span.end_ns)
        for tick in ticks
        for span in tick.spans
        if (span.phase, span.lane) == ("refill", Lane.DEVICE)
    ]
    # The second verify is queued at 11 ms, just when the device is free, and ends at 17.
    start = 5_000 * MS
    assert refills[:3] == [
        (start + 7 * MS, start + 10 * MS),
        (start + 10 * MS, start + 11 * MS),
        (start + 17 * MS, start + 20 * MS),
    ]
    assert host_share(ticks).number() == 0
    assert hidden_share(ticks).number() == 1
    assert phases(ticks)["unattributed"].number() == 0


def test_what_the_device_waits_for_is_not_hidden():
    device = Device()
    recorder = device.recorder()
    for _ in range(2):
        recorder.begin(TickKind.DECODE)
        with recorder.span("verify"):
            device.work(6)
            device.wait()
        with recorder.span("commit"):
            device.host(2)
        recorder.end(1, 2)
    ticks = recorder.drain()
    assert hidden_share(ticks).number() == 0
    assert host_share(ticks).number() == pytest.approx(2 / 8)


def test_ticks_are_read_whenever_they_are_drained():
    device = Device()
    recorder = device.recorder()
    steps(device, recorder, 2)
    first = recorder.drain()
    device.host(1_000)
    steps(device, recorder, 1)
    (third,) = recorder.drain()
    assert third.index == 2
    assert lanes(third, "verify")[Lane.DEVICE] == (third.start_ns, third.start_ns + 7 * MS)
    assert recorder.drain() == []
    recorder.restore(first)
    assert recorder.drain() == first


def test_without_spans_nothing_is_marked_and_nothing_waited_for():
    device = Device()
    recorder = device.recorder(spans=False)
    steps(device, recorder, 2)
    assert all(tick.spans == () for tick in recorder.drain())
    assert device.waits == 0


def test_a_span_is_cut_at_the_ticks_and_lost_between_them():
    ticks = [
        Tick(i, TickKind.DECODE, 1, 1, 1, False, start, end)
        for i, (start, end) in enumerate([(0, 10), (12, 20), (20, 30)])
    ]
    spans = [
        Span("a", Lane.DEVICE, 2, 5),
        Span("b", Lane.DEVICE, 8, 25),
        Span("c", Lane.DEVICE, 31, 32),
    ]
    found = [[(s.phase, s.start_ns, s.end_ns) for s in t.spans] for t in shared_out(ticks, spans)]
    assert found == [
        [("a", 2, 5), ("b", 8, 10)],
        [("b", 12, 20)],
        [("b", 20, 25)],
    ]
