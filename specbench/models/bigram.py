"""Reads a bigram table for a target."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

import numpy as np
import numpy.typing as npt

from specbench.errors import PrerequisiteError, UsageError
from specbench.models.heads.files import files_hash, open_checkpoint
from specbench.models.heads.made_for import MadeFor, made_for
from specbench.models.heads.table import BIGRAM, LAYOUT, NEXT, is_table, table_facts
from specbench.models.heads.tensors import load_tensors
from specbench.models.locate import Location, fetch_command


@dataclass(frozen=True, slots=True)
class BigramTable:
    """What follows what.

    Attributes:
        following: int32 [V], the token to draft behind each token, -1 for none.
        name, revision, weight_hash: where it came from.
        tokens: how many were counted; None where the file does not say.
        made_for: the target whose texts were counted; None where the file does not say.
    """

    following: npt.NDArray[np.int32] = field(repr=False)
    name: str
    revision: str | None
    weight_hash: str
    tokens: object
    made_for: MadeFor | None

    def facts(self) -> dict[str, object]:
        """What is recorded, in the words of a head's ``HeadCheckpoint.facts``."""
        return {
            "name": self.name,
            "revision": self.revision,
            "family": BIGRAM,
            "layout": LAYOUT,
            "weight_hash": self.weight_hash,
            "made_for": None if self.made_for is None else asdict(self.made_for),
            "tokens": self.tokens,
            "dtype": "int32",
            "quant": "none",
        }


def read_table(location: Location, vocabulary: int) -> BigramTable:
    """Read a table whole.

    Args:
        location: from ``locate``.
        vocabulary: V, rows of the target's logits.

    Raises:
        UsageError: a folder with something else in it.
        PrerequisiteError: not on this disk, damaged, or a table of another vocabulary.
    """
    if location.path is None:
        raise PrerequisiteError(
            f"{location.name} is not on this disk",
            f"type: {fetch_command(location.name, location.revision, head=True)}",
        )
    if location.kind == "gguf":
        raise UsageError(
            f"{location.name} is a GGUF file, which holds no bigram table",
            "name the table's folder",
        )
    checkpoint = open_checkpoint(location.path)
    if not is_table(checkpoint.config):
        raise UsageError(
            f"{location.name} holds no bigram table",
            f"specbench models inspect {location.name} says what it holds",
        )
    facts = table_facts(checkpoint, vocabulary)
    following = load_tensors(checkpoint, [NEXT])[NEXT].numpy().copy()
    if not -1 <= int(following.min()) <= int(following.max()) < vocabulary:
        raise PrerequisiteError(
            f"{location.name}: its ids run from {following.min()} to {following.max()}, the target "
            f"has ids 0 to {vocabulary - 1} (-1 stands for none)",
            "count the table again",
        )
    return BigramTable(
        following,
        location.name,
        location.revision,
        files_hash([checkpoint.files[NEXT]]),
        facts["tokens"],
        made_for(checkpoint.path),
    )
