"""Philox against the vectors of its authors; streams that never meet."""

import numpy as np
import pytest
from scipy import stats

from specbench.decoding.random import Stream, philox, uniforms

# Random123, kat_vectors, philox 4x32 10 rounds: counter, key, output.
KNOWN_ANSWERS = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000",
     "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff",
     "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0",
     "d16cfe09 94fdcceb 5001e420 24126ea1"),
]  # fmt: skip


def words(text):
    return tuple(np.array([int(word, 16)], dtype=np.uint64) for word in text.split())


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN_ANSWERS)
def test_philox_gives_the_published_words(counter, key, expected):
    got = philox(words(counter), words(key))
    assert " ".join(f"{int(word[0]):08x}" for word in got) == expected


def test_a_uniform_is_the_first_53_bits_of_its_block():
    # Seed 0, stream 0, index 0, node 0 is the all-zero block.
    high, low = 0x6627E8D5, 0xE169C58D
    assert uniforms(0, Stream.DRAFT, 0, 0) == ((high << 32 | low) >> 11) / 2**53


def test_the_largest_possible_number_is_below_one():
    assert np.float64(2**53 - 1) * 2.0**-53 < 1.0


def test_every_part_of_the_address_changes_the_number():
    at = {"seeds": 5, "stream": Stream.ACCEPT, "index": 7, "node": 3}
    others = [
        {"seeds": 6},
        {"seeds": 5 + 2**32},
        {"stream": Stream.RESIDUAL},
        {"index": 8},
        {"index": 7 + 2**32},
        {"node": 4},
    ]
    numbers = [float(uniforms(**at | change)) for change in [{}, *others]]
    assert len(set(numbers)) == len(numbers)


def test_five_uses_have_five_streams():
    uses = [Stream.DRAFT, Stream.ACCEPT, Stream.RESIDUAL, Stream.BONUS, Stream.TARGET]
    assert len({int(stream) for stream in uses}) == 5


def test_streams_are_disjoint_and_uncorrelated():
    index = np.arange(4000)
    lines = np.stack([uniforms(9, stream, index, 0) for stream in Stream])
    assert len(np.unique(lines)) == lines.size
    correlation = np.corrcoef(lines) - np.eye(len(Stream))
    # Standard error 1/sqrt(4000) = 0.016; ten pairs, 5 sigma.
    assert np.abs(correlation).max() < 5 / np.sqrt(4000)


@pytest.mark.parametrize("stream", list(Stream))
def test_numbers_look_uniform(stream):
    numbers = uniforms(np.arange(40)[:, None], stream, np.arange(500)[None, :], 0).ravel()
    assert stats.kstest(numbers, "uniform").pvalue > 1e-4
    assert 0.0 <= numbers.min() < 1e-3
    assert 1 - 1e-3 < numbers.max() < 1.0


def test_neighbours_in_an_array_do_not_matter():
    together = uniforms([3, 4, 5], Stream.BONUS, [1, 2, 3], [0, 1, 2])
    alone = [uniforms(s, Stream.BONUS, i, n) for s, i, n in [(3, 1, 0), (4, 2, 1), (5, 3, 2)]]
    assert together.tolist() == [float(a) for a in alone]
