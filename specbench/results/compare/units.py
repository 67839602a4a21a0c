"""What is independent of what: the prompt, or the block of prompts that was timed together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from specbench.results.compare.joined import NEW, Joined, Places
from specbench.stats.ratios import Array


class Units:
    """Independent units, in the order in which their labels first appear."""

    def __init__(self, labels: NDArray[Any] | pd.Series[Any]) -> None:
        """Number them.

        Args:
            labels: the unit of each request.
        """
        self._places, distinct = pd.factorize(labels)
        self.count = len(distinct)

    def summed(self, values: NDArray[Any]) -> Array:
        """Sum of values, none of them unknown, by unit."""
        return np.bincount(self._places, values, self.count).astype(np.float64)

    def first(self, values: NDArray[Any]) -> Array:
        """The first value of each unit."""
        found = np.empty(self.count)
        # The last one written stays.
        found[self._places[::-1]] = values[::-1]
        return found


def unit_labels(joined: Joined, places: Places, *, timed: bool) -> NDArray[Any]:
    """The independent unit of each request.

    The prompt, whose turns and repeats are correlated. For times of one run the interleaving unit
    where that holds several prompts, as a block does.
    """
    prompts = joined.prompts[places]
    if not timed or joined.apart:
        return prompts
    units, names = pd.factorize(joined.values(NEW, "unit")[places])
    pairs = pd.DataFrame({"unit": units, "prompt": prompts})
    wide = (pairs.groupby("unit")["prompt"].transform("nunique") > 1).to_numpy()
    # Numbers below 0 are of blocks, others of prompts.
    return np.where(wide & (names[units] != ""), -1 - units, prompts)
