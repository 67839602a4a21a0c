"""Ridges of ALGORITHMS 2.4, and entries that agree with themselves."""

import pytest

from specbench.roofline.devices import BITS, DEVICES, TILE, by_driver
from specbench.roofline.sheets import BOTH, DENSE, SPARSE


@pytest.mark.parametrize(
    ("name", "ridge"),
    [
        ("a100", 153),  # 312 / 2.039
        ("h100", 295),  # 989 / 3.35
        ("h200", 206),  # 989 / 4.8
        ("b200", 281),  # 2250 / 8
        ("rtx4090", 164),  # 165.2 / 1.008
        ("l4", 403),  # 121 / 0.3
        ("h100-nvl", 214),  # 835.5 / 3.9
        ("gh200-144", 202),  # 990 / 4.9
        ("a100-pcie", 161),  # 312 / 1.935
        ("a10", 208),  # 125 / 0.6
        ("b300", 292),  # 2250 / 7.7
        ("rtx3090", 76),  # 71 / 0.936
        ("mi250x", 117),  # 191.5 / 1.6384
        ("mi325x", 218),  # 1307.4 / 6
    ],
)
def test_ridges_in_16_bits(name, ridge):
    assert round(DEVICES[name].ridge("bfloat16")) == ridge


@pytest.mark.parametrize("device", DEVICES.values(), ids=DEVICES)
def test_every_entry_says_where_it_is_from(device):
    assert "data sheet" in device.source or "white paper" in device.source
    assert device.sheet.title == device.source
    assert device.sheet.url.startswith("https://")
    assert device.sheet.rates in (DENSE, BOTH, SPARSE)
    assert device.peaks.keys() <= BITS.keys()
    assert device.peaks["float32"] < device.peaks["float16"] < device.peaks.get("float8", 1e18)
    assert device.drivers


def test_dense_rates_are_half_of_those_with_sparsity():
    # the data sheet of H100 and H200 SXM: 1,979 and 3,958 with sparsity
    assert DEVICES["h200"].peaks["bfloat16"] == pytest.approx(1979e12 / 2, rel=1e-3)
    assert DEVICES["h200"].peaks["float8"] == pytest.approx(3958e12 / 2)


def test_sparse_figures_of_other_sheets_are_halved():
    # H100 NVL: 1,671 and 3,341 with sparsity; HGX B300 per GPU: 4.5 and 9 PFLOPS with sparsity
    assert DEVICES["h100-nvl"].peaks["bfloat16"] == 1671e12 / 2
    assert DEVICES["h100-nvl"].peaks["float8"] == 3341e12 / 2
    assert DEVICES["b300"].peaks["bfloat16"] == 4.5e15 / 2
    assert DEVICES["b300"].peaks["float8"] == 9e15 / 2


def test_both_dies_of_an_mi250x_are_what_its_sheet_says():
    both = DEVICES["mi250x"].times(2)
    assert both.bandwidth == pytest.approx(3.2768e12)
    assert both.memory == 128e9
    assert both.peaks["bfloat16"] == 383e12


def test_rates_of_geforce_are_those_with_sums_in_float32():
    # 82 SMs x 4 tensor cores x 128 FLOP per clock at 1.695 GHz; twice as many with float16 sums
    assert DEVICES["rtx3090"].peaks["bfloat16"] == pytest.approx(82 * 4 * 128 * 1.695e9, rel=5e-3)


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
