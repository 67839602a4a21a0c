"""Bytes and FLOPs by hand."""

import pytest

from specbench.roofline.cost import (
    ATTENTION,
    EXPERTS,
    MATRICES,
    OUTPUT,
    Load,
    Precision,
    forward,
    padded_rows,
    touched,
)
from specbench.roofline.shape import Experts, Layers, Shape, grouped, latent
from tests.roofline.shapes import BF16, dense, routed


def by_name(shape, load, precision=BF16, tile=64):
    return {part.name: part for part in forward(shape, precision, load, lambda dtype: tile)}


def test_a_dense_forward():
    parts = by_name(dense(), Load(batch=3, rows=2, context=100))
    # 2 layers x 1000 parameters x 2 bytes, read once; 6 rows, computed as 64
    assert (parts[MATRICES].bytes, parts[MATRICES].flops) == (4000, 2 * 2000 * 6)
    assert parts[MATRICES].padded == 2 * 2000 * 64
    # 2 layers, 3 requests, 102 keys of 2 x 2 x 8 elements of 2 bytes
    assert parts[ATTENTION].bytes == 2 * 3 * 102 * 32 * 2
    # rows see 101 and 102 keys; 2 products x 2 FLOP x 4 heads x 8
    assert parts[ATTENTION].flops == 2 * 3 * (101 + 102) * 128
    assert parts[ATTENTION].padded == parts[ATTENTION].flops
    assert (parts[OUTPUT].bytes, parts[OUTPUT].flops) == (50 * 10 * 2, 2 * 500 * 6)


def test_stored_bits():
    quantised = Precision("bfloat16", matrix_bits=4, expert_bits=4, kv_bits=8)
    parts = by_name(dense(), Load(1, 1, 99), quantised)
    assert parts[MATRICES].bytes == 2000 / 2
    assert parts[ATTENTION].bytes == 2 * 100 * 32
    assert parts[OUTPUT].bytes == 1000  # ends stay in 16 bits
    assert {part.dtype for part in parts.values()} == {"bfloat16"}


def test_eight_bit_products_leave_the_ends_and_a_16_bit_cache_alone():
    parts = by_name(dense(), Load(1, 1, 99), Precision("float8", 8, 8, 16))
    assert parts[MATRICES].dtype == "float8"
    assert parts[ATTENTION].dtype == parts[OUTPUT].dtype == "bfloat16"
    assert (
        by_name(dense(), Load(1, 1, 99), Precision("float8", 8, 8, 8))[ATTENTION].dtype == "float8"
    )


@pytest.mark.parametrize("rows", [1, 2, 5, 8])
@pytest.mark.parametrize("groups", [1, 4, 8])
def test_intensity_of_the_cache_is_groups_times_rows(rows, groups):
    """ALGORITHMS 2.4: 16-bit keys are met by G T rows, whatever the batch."""
    shape = Shape("g", 10, 50, (Layers(3, 10, grouped(2 * groups, 2, 8)),), 50)
    for batch in (1, 16):
        part = by_name(shape, Load(batch, rows, 10**6))[ATTENTION]
        assert part.flops / part.bytes == pytest.approx(groups * rows, rel=1e-4)


@pytest.mark.parametrize("rows", [1, 6, 64])
def test_intensity_of_16_bit_weights_is_the_rows_of_the_batch(rows):
    part = by_name(dense(), Load(rows, 1, 10))[MATRICES]
    assert part.flops / part.bytes == rows
    assert by_name(dense(), Load(1, rows, 10))[MATRICES] == part


def test_a_window_bounds_what_is_read_and_seen():
    parts = by_name(dense(window=10), Load(1, 3, 100))
    # three rows see the 10 keys up to theirs: 12 different ones
    assert parts[ATTENTION].bytes == 2 * 12 * 32 * 2
    assert parts[ATTENTION].flops == 2 * 30 * 128
    early = by_name(dense(window=10), Load(1, 3, 4))[ATTENTION]
    assert early.bytes == 2 * 7 * 32 * 2
    assert early.flops == 2 * (5 + 6 + 7) * 128


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (1, 2.0),
        (2, 3.5),  # 8 (1 - (3/4)^2)
        (3, 4.625),  # 8 (1 - (3/4)^3)
    ],
)
def test_experts_touched(tokens, expected):
    assert touched(Experts(8, 2, 300), tokens) == pytest.approx(expected)


def test_experts_touched_are_all_in_the_end():
    assert touched(Experts(256, 8, 1), 1) == pytest.approx(8)
    assert touched(Experts(256, 8, 1), 2) == pytest.approx(15.75)  # 256 (1 - (31/32)^2)
    assert touched(Experts(256, 8, 1), 10_000) == pytest.approx(256)


def test_a_routed_forward():
    parts = by_name(routed(), Load(2, 1, 10))
    assert parts[EXPERTS].bytes == pytest.approx(3.5 * 300 * 2)
    assert parts[EXPERTS].flops == 2 * 2 * 2 * 300
    # each expert that is met computes a tile of its own
    assert parts[EXPERTS].padded == pytest.approx(3.5 * 64 * 2 * 300)


def test_latent_attention_reads_one_latent_for_all_heads():
    attention = latent(heads=128, rank=512, rotary=64)
    assert attention.kv_elements == 576
    # scores over 512 + 64, values over 512, 2 FLOP each
    assert attention.pair_flops == 2 * 128 * (576 + 512)


def test_padding():
    assert [padded_rows(rows, 64) for rows in (1, 64, 65, 128)] == [64, 64, 128, 128]
    assert padded_rows(7, 1) == 7
