"""Ridges of ALGORITHMS 2.4, and entries that agree with themselves."""

import pytest

from specbench.roofline.devices import BITS, DEVICES, TILE, by_driver


@pytest.mark.parametrize(
    ("name", "ridge"),
    [
        ("a100", 153),  # 312 / 2.039
        ("h100", 295),  # 989 / 3.35
        ("h200", 206),  # 989 / 4.8
        ("b200", 281),  # 2250 / 8
        ("rtx4090", 164),  # 165.2 / 1.008
        ("l4", 403),  # 121 / 0.3
    ],
)
def test_ridges_in_16_bits(name, ridge):
    assert round(DEVICES[name].ridge("bfloat16")) == ridge


@pytest.mark.parametrize("device", DEVICES.values(), ids=DEVICES)
def test_every_entry_says_where_it_is_from(device):
    assert "data sheet" in device.source or "white paper" in device.source
    assert device.peaks.keys() <= BITS.keys()
    assert device.peaks["float32"] < device.peaks["float16"] < device.peaks.get("float8", 1e18)
    assert device.drivers


def test_dense_rates_are_half_of_those_with_sparsity():
    # the data sheet of H100 and H200 SXM: 1,979 and 3,958 with sparsity
    assert DEVICES["h200"].peaks["bfloat16"] == pytest.approx(1979e12 / 2, rel=1e-3)
    assert DEVICES["h200"].peaks["float8"] == pytest.approx(3958e12 / 2)


def test_a_driver_names_one_device():
    names = [name for device in DEVICES.values() for name in device.drivers]
    assert len(set(names)) == len(names)
    assert by_driver("NVIDIA L40S") is DEVICES["l40s"]
    assert by_driver("NVIDIA L4") is DEVICES["l4"]
    assert by_driver("NVIDIA L40") is None


def test_several_as_one_keep_the_ridge():
    eight = DEVICES["h200"].times(8)
    assert eight.bandwidth == pytest.approx(38.4e12)
    assert eight.memory == pytest.approx(1128e9)
    assert eight.ridge("float8") == pytest.approx(DEVICES["h200"].ridge("float8"))
    assert eight.count == 8


def test_tiles_are_of_tensor_cores_alone():
    assert DEVICES["h200"].rows("bfloat16") == DEVICES["h200"].rows("float8") == TILE == 64
    assert DEVICES["h200"].rows("float32") == 1
