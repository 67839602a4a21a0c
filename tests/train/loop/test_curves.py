"""Curves as a file and as a picture."""

import sys

import pytest

from specbench.errors import PrerequisiteError, SpecbenchError
from specbench.train.loop.curves import Curves, draw, read_rows
from specbench.train.loop.means import Means
from tests.train.data.answering import room_for


def test_rows_are_read_as_they_were_written(tmp_path):
    path = tmp_path / "curves.csv"
    curves = Curves(path, 0)
    curves.add({"step": 0, "accept_length": 1.0})
    curves.add({"step": 10, "loss": 0.123456789, "alpha_1": 1e-9})
    curves.write()
    assert path.read_text() == ("step,accept_length,loss,alpha_1\n0,1,,\n10,,0.123457,1e-09\n")
    again = Curves(path, 10)
    again.write()
    assert path.read_text().splitlines()[1:] == ["0,1,,", "10,,0.123457,1e-09"]
    # What lies behind the checkpoint is made again.
    assert [row["step"] for row in Curves(path, 9).rows] == [0]
    assert read_rows(tmp_path / "none.csv") == []


def test_a_picture(tmp_path):
    rows = [{"step": 0, "accept_length": 1.0}, {"step": 10, "loss": 0.5, "alpha_1": 0.2}]
    draw(rows, tmp_path / "curves.png", "title")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    with room_for(64), pytest.raises(SpecbenchError, match=r"full\.png could not be written"):
        draw(rows, tmp_path / "full.png", "title")
    assert [path.name for path in tmp_path.iterdir()] == ["curves.png"]


def test_a_picture_without_matplotlib(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(PrerequisiteError, match="needs matplotlib") as refused:
        draw([], tmp_path / "curves.png", "title")
    assert "pip install" in str(refused.value)


def test_means():
    means = Means()
    means.add({"loss": 1.0, "alpha": 4.0})
    means.add({"loss": 2.0})
    assert Means(means.sums).take() == {"loss": 1.5, "alpha": 4.0}
    assert means.take() == {"loss": 1.5, "alpha": 4.0}
    assert means.take() == {}
