"""The log keeps a beginning and an end of fixed size."""

from __future__ import annotations

from specbench.engines.servers.output import BoundedLog


def test_everything_where_there_is_room(tmp_path):
    path = tmp_path / "log"
    with BoundedLog(path, limit=100, tail=10) as log:
        log.write(b"one\n\ntwo\n")
        assert log.tail() == ["one", "two"]
        assert log.tail(1) == ["two"]
    assert path.read_bytes() == b"one\n\ntwo\n"


def test_beginning_and_end_of_too_much(tmp_path):
    path = tmp_path / "log"
    text = b"".join(b"%04d\n" % i for i in range(1000))
    with BoundedLog(path, limit=10, tail=20) as log:
        for start in range(0, len(text), 7):
            log.write(text[start : start + 7])
        assert log.tail() == ["0996", "0997", "0998", "0999"]
    assert path.read_bytes() == b"0000\n0001\n\n[4970 bytes left out]\n0996\n0997\n0998\n0999\n"


def test_a_chunk_across_the_limit_is_not_written_twice(tmp_path):
    path = tmp_path / "log"
    with BoundedLog(path, limit=4, tail=100) as log:
        log.write(b"abcdef")
    assert path.read_bytes() == b"abcd\n[0 bytes left out]\nef"


def test_bytes_that_are_no_text(tmp_path):
    with BoundedLog(tmp_path / "log") as log:
        log.write(b"\xff\xfe\n")
        assert log.tail() == ["��"]
