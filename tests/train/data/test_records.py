"""Files of records: torn lines, wrong lines, a second writer, a full disk."""

import json

import pytest

from specbench.errors import PrerequisiteError, SpecbenchError, UsageError
from specbench.train.data.records import Records, read_records
from tests.train.data.answering import room_for

A, B = {"id": "a", "text": "ä\n"}, {"id": "b", "text": ""}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "new" / "records.jsonl"


def write(path, *records):
    with Records(path) as file:
        for record in records:
            file.add(record)


def test_records_are_lines_and_come_back(path):
    assert list(read_records(path)) == []
    write(path, A)
    write(path, B)
    assert list(read_records(path)) == [A, B]
    assert path.read_text(encoding="utf-8") == '{"id":"a","text":"ä\\n"}\n{"id":"b","text":""}\n'


def test_a_record_is_on_disk_when_add_returns(path):
    file = Records(path)
    file.add(A)
    assert list(read_records(path)) == [A]
    file.close()


@pytest.mark.parametrize("torn", ['{"id":"b","te', '{"id":"b","text":""}', "ä".encode()[:1]])
def test_a_torn_last_line_is_left_out_and_cut_off(path, torn):
    """Also where all of it but the end of the line is there: the next writer cuts it off."""
    write(path, A)
    with path.open("ab") as stream:
        stream.write(torn if isinstance(torn, bytes) else torn.encode())
    assert list(read_records(path)) == [A]
    write(path, B)
    assert list(read_records(path)) == [A, B]


@pytest.mark.parametrize(
    "line", [b'{"id":"b","te', b"", b"5", b'["id"]', b'{"text":""}', b"\xff\xfe"]
)
def test_a_wrong_line_in_the_middle_is_refused(path, line):
    write(path, A)
    with path.open("ab") as stream:
        stream.write(line + b"\n")
    write(path, B)
    with pytest.raises(PrerequisiteError) as refused:
        list(read_records(path))
    assert refused.value.message == f"{path}, line 2: damaged: not a record of this file"
    assert refused.value.hint == "remove the line; what it held is made anew"


def test_keys_that_every_record_has(path):
    write(path, A, {"id": "c"})
    assert len(list(read_records(path))) == 2
    with pytest.raises(PrerequisiteError, match="line 2"):
        list(read_records(path, ["id", "text"]))


def test_a_second_writer_is_refused(path):
    with Records(path) as file:
        file.add(A)
        with pytest.raises(UsageError, match="is being written by another process"):
            Records(path)
    write(path, B)
    assert list(read_records(path)) == [A, B]


def test_a_full_disk_keeps_what_is_finished(path):
    long = {"id": "c", "text": "x" * 500}
    with Records(path) as file:
        file.add(A)
        with room_for(200), pytest.raises(SpecbenchError) as full:
            file.add(long)
        assert path.stat().st_size == 200  # torn: part of the record fitted
    assert full.value.message.startswith(f"cannot write {path}: ")
    assert "finished records are kept: make room" in full.value.hint
    assert "the same command again" in full.value.hint
    assert list(read_records(path)) == [A]
    write(path, long)
    assert list(read_records(path)) == [A, long]


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SpecbenchError, match=r"cannot write .*records\.jsonl: "):
        Records(tmp_path / "file" / "records.jsonl")


def test_numbers_that_json_does_not_have(path):
    with Records(path) as file, pytest.raises(ValueError, match="JSON"):
        file.add({"id": "a", "x": float("nan")})
    assert json.loads("[]") == list(read_records(path))
