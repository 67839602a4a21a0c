"""Memory of a run by hand, and what would fit."""

from __future__ import annotations

import pytest

from specbench.roofline.need import Held, Need, whole_steps

TARGET, DRAFT = Held("target", 1000, 2), Held("draft", 500, 1)


def need(**changed):
    """4 requests of 300 rows, 512 with whole steps; 3 bytes a row."""
    usual = {"held": (TARGET, DRAFT), "requests": 4, "least": 300, "answer": 200, "about": 600}
    return Need(**{**usual, **changed})


@pytest.mark.parametrize(("rows", "whole"), [(1, 256), (256, 256), (257, 512), (0, 0)])
def test_rows_come_in_steps(rows, whole):
    assert whole_steps(rows) == whole


def test_what_is_sure_and_what_is_likely():
    assert need().sure == 1500 + 4 * 3 * 512
    assert need().likely == 1500 + 4 * 3 * 768
    assert need(workspace=70, logits=9).sure == 1570 + 4 * 3 * 512
    assert need(workspace=70, logits=9).likely == 1579 + 4 * 3 * 768
    assert need(spare=1).sure == 1500 + 5 * 3 * 512


def test_the_parts_are_all_that_is_sure():
    found = need(workspace=70, spare=1)
    names = ["weights of target", "weights of draft", "KV of 5 x 512 tokens", "workspace"]
    assert [name for name, _ in found.parts()] == names
    assert sum(size for _, size in found.parts()) == found.sure


def test_requests_that_fit():
    # 1500 bytes of weights, then 1536 of each request
    assert need().most_requests(1500 + 3 * 1536, 300) == 3
    assert need().most_requests(1500 + 3 * 1536 - 1, 300) == 2
    assert need(spare=1).most_requests(1500 + 3 * 1536, 300) == 2
    assert need().most_requests(1499, 300) < 0


def test_rows_that_fit():
    # a step of 4 slabs takes 4 x 3 x 256 = 3072 bytes
    assert need().most_rows(1500 + 3072) == 256
    assert need().most_rows(1500 + 3072 - 1) == 0
    assert need().most_rows(1499) < 0
