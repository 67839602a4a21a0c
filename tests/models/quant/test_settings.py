"""What may be asked for, and what it is called in records."""

from __future__ import annotations

import pytest

from specbench.errors import UsageError
from specbench.models.quant.settings import NOT_QUANTISED, QUANT_OPTIONS, Quant, quant_of


@pytest.mark.parametrize(
    ("options", "wanted", "label"),
    [
        ({}, NOT_QUANTISED, "none"),
        ({"quant": None, "quant_backend": None, "quant_head": None}, NOT_QUANTISED, "none"),
        ({"quant": "none", "quant_backend": "torchao", "quant_head": True}, NOT_QUANTISED, "none"),
        ({"quant": "none", "quant_head": False, "quant_backend": "torch"}, NOT_QUANTISED, "none"),
        ({"quant": "int8"}, Quant("int8"), "int8"),
        ({"quant": "int4-g32"}, Quant("int4", group=32), "int4-g32"),
        ({"quant": "int4"}, Quant("int4", group=32), "int4-g32"),
        (
            {"quant": "int4-g64", "quant_head": True},
            Quant("int4", group=64, head=True),
            "int4-g64-head",
        ),
        (
            {"quant": "int8", "quant_backend": "torchao"},
            Quant("int8", "torchao"),
            "int8-torchao",
        ),
        (
            {"quant": "int4", "quant_backend": "bitsandbytes"},
            Quant("int4", "bitsandbytes"),
            "int4-bitsandbytes",
        ),
    ],
)
def test_asked_for_and_named(options, wanted, label):
    found = quant_of({"model": "m", **options}, "target")
    assert (found, found.label, found.on) == (wanted, label, label != "none")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"quant": "int5"}, r"target: quant='int5'.*none, int8, int4"),
        ({"quant": "int4-g48"}, r"quant='int4-g48'.*int4-g64"),
        ({"quant": "int4-g64", "quant_backend": "bitsandbytes"}, "blocks of its own"),
        ({"quant": "int8", "quant_backend": "gptq"}, r"quant_backend='gptq'.*torch, torchao"),
        ({"quant": "int8", "quant_head": "yes"}, "quant_head='yes'.*true or false"),
    ],
)
def test_refused_with_what_to_write(options, message):
    with pytest.raises(UsageError, match=f"(?s){message}"):
        quant_of(options, "target")


def test_every_option_of_drafters_is_read():
    assert set(QUANT_OPTIONS) == {"quant", "quant_backend", "quant_head"}
