"""Servers are told the folder of a head that ships with specbench, not its name."""

from __future__ import annotations

import pytest

from specbench.core.arm import ArmSpec
from specbench.engines.servers.given import with_folder
from specbench.errors import UsageError
from specbench.models import zoo
from tests.models.tables import write_table


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(zoo, "zoo_folder", lambda: tmp_path)
    return write_table(tmp_path / "tiny", [0])


def test_a_name_gives_way_to_its_folder(folder):
    options = {"model": "zoo:tiny", "greedy": True}
    found = with_folder(ArmSpec("a", "eagle3", 3, drafter_options=options))
    assert found.drafter_options == {"model": str(folder), "greedy": True}
    assert (found.name, found.drafter, found.k) == ("a", "eagle3", 3)


@pytest.mark.parametrize("options", [{}, {"model": "org/head"}, {"model": "./zoo"}])
def test_other_arms_are_left_alone(folder, options):
    arm = ArmSpec("a", "eagle3", 3, drafter_options=options)
    assert with_folder(arm) == arm


def test_an_unknown_name_is_said(folder):
    with pytest.raises(UsageError, match="unknown head 'zoo:tin'"):
        with_folder(ArmSpec("a", "eagle3", 3, drafter_options={"model": "zoo:tin"}))
