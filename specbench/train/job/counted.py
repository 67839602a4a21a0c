"""A bigram table out of the target's answers: the floor that a trained head is held against."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from specbench.models.load import LoadedModel
from specbench.models.opened import OpenedTarget
from specbench.train.bigram import count_bigrams, write_bigram
from specbench.train.capture.disk import unwritten
from specbench.train.job.folder import JobFolder
from specbench.train.job.optimising import K
from specbench.train.job.record import data_facts, target_facts
from specbench.train.job.stages import Prepared
from specbench.train.job.validate import HeldOut, figures
from specbench.train.loop.checkpoint import Standing
from specbench.train.recipe.methods import DRAFTERS
from specbench.train.recipe.schema import Recipe


class CountedTable:
    """A table of successors, as something that can be exported.

    Args:
        prepared: answers; those of the training side are counted.
        target: whose answers they are.
    """

    def __init__(self, prepared: Prepared, target: LoadedModel) -> None:
        rows = target.model.get_input_embeddings().num_embeddings
        answers = prepared.train
        pairs = (((*one.prompt, *one.answer), len(one.prompt)) for one in answers)
        self._table = count_bigrams(pairs, rows)
        self._facts = {
            "tokens": sum(len(one.answer) for one in answers),
            "target": target.location.name,
            "weight_hash": target.weight_hash,
        }

    def export(self, folder: Path) -> None:
        """Write the table. SpecbenchError: the disk is full."""
        try:
            write_bigram(folder, self._table, self._facts)
        except OSError as error:
            raise unwritten(folder, error, "the answers are kept") from error


def count(
    recipe: Recipe,
    folder: JobFolder,
    prepared: Prepared,
    target: LoadedModel,
    opened: Callable[[], OpenedTarget],
) -> tuple[CountedTable, Standing]:
    """Count, and draft along held-out answers; there is nothing to go on with."""
    table = CountedTable(prepared, target)
    held = HeldOut(
        lambda _: opened(),
        prepared.validated,
        DRAFTERS[recipe.method],
        recipe.validate_.k or K,
        recipe.validate_.options,
    )
    length = figures(held.of(table, folder.scratch))["accept_length"]
    folder.note(
        recipe=recipe.name,
        method=recipe.method,
        target=target_facts(target),
        data=data_facts(prepared, None),
        loop={"held_out_accept_length": length},
    )
    return table, Standing(best=length, stopped="all answers are counted")
