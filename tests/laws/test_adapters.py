"""Samplers are found by name, and whoever types it wrong learns what to type."""

import sys

import pytest

from specbench.errors import PrerequisiteError, UsageError
from specbench.laws.named import load_device, load_sampler


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A current directory with three modules."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry != ""])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "mine_a.py").write_text("def verify(*a):\n    return a\n\nRATE = 3\n")
    (tmp_path / "mine_b.py").write_text("import specbench_no_such_engine\n")
    (tmp_path / "mine_c.py").write_text("1 / 0\n")
    yield tmp_path
    for name in ("mine_a", "mine_b", "mine_c"):
        sys.modules.pop(name, None)


def test_a_function_in_the_current_directory(folder):
    assert load_sampler("mine_a:verify")(1) == (1,)


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("mine_a", UsageError, "write module:function"),
        (":verify", UsageError, "write module:function"),
        ("mine_a:verfy", UsageError, "did you mean verify"),
        ("mine_a:RATE", UsageError, "no function 'RATE'"),
        ("mine_z:verify", PrerequisiteError, "run where its file lies"),
        ("mine_b:verify", PrerequisiteError, "no module named 'specbench_no_such_engine'"),
        ("mine_c:verify", PrerequisiteError, "ZeroDivisionError"),
    ],
)
def test_wrong_names(folder, name, kind, words):
    with pytest.raises(kind) as caught:
        load_sampler(name)
    assert words in str(caught.value)


def test_devices():
    assert load_device("cpu").type == "cpu"
    with pytest.raises(UsageError, match="no such device"):
        load_device("toaster")


def test_a_device_that_is_not_there():
    with pytest.raises(PrerequisiteError, match="--device cpu"):
        load_device("cuda:97")
