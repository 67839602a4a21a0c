"""The split of a prompt is a fixed property of its name."""

from __future__ import annotations

import pytest

from specbench.suites.split import split_of


@pytest.mark.parametrize(
    ("suite", "prompt", "split"),
    [
        # `printf demo/a | sha256sum` begins 37220eeb; 0.3 of the range ends at 4ccccccc.
        ("demo", "a", "dev"),  # 37220eeb
        ("demo", "b", "test"),  # d2bf74fc
        ("demo", "f", "test"),  # 59a60766
        ("code", "code-001", "test"),  # 8d6d916c
        ("chat", "chat-001", "test"),  # 579df86a
    ],
)
def test_golden(suite, prompt, split):
    assert split_of(suite, prompt) == split


def test_three_in_ten_are_dev():
    dev = sum(split_of("demo", f"p-{i}") == "dev" for i in range(10_000))
    # binomial: sd = sqrt(10000 * .3 * .7) = 45.8; five of them
    assert abs(dev - 3000) < 230
