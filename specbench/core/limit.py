"""What memory allows a run: what every forward of its target reads, and how fast that can be read.

Kept in the manifest, so that the share of it that was reached is a function of the record.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reads:
    """What a forward of the target reads at least, in bytes.

    Attributes:
        weights: parameters that every forward reads, whatever the batch.
        kv_per_token: keys and values of one token of context; 0 where layers with a window would
            make it less.
    """

    weights: int
    kv_per_token: int


@dataclass(frozen=True, slots=True)
class Limit:
    """The rate of reading beside what is read.

    Attributes:
        bandwidth: bytes/s.
        source: where that is from, in words.
        reads: of one forward.
    """

    bandwidth: float
    source: str
    reads: Reads
