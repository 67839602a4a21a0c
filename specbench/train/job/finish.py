"""The end of a training: what was trained, with its card, appears in the folder in one step."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from typing import Any, cast

import torch

from specbench.models.weights import weight_hash
from specbench.train.capture.corpus import Corpus, batches
from specbench.train.capture.disk import open_to_readers, unwritten
from specbench.train.job.card import write_card
from specbench.train.job.folder import JobFolder
from specbench.train.job.on_suites import on_suites
from specbench.train.job.stages import Inference, Prepared
from specbench.train.job.tuned import TUNES, answers_of_tuned
from specbench.train.job.validate import Exports
from specbench.train.methods.accuracies import Ranked, rank_accuracies
from specbench.train.methods.method import Method
from specbench.train.recipe.methods import DRAFTERS, PARALLEL
from specbench.train.recipe.schema import Recipe

ACCURACIES = "accuracies.json"
"""Shares by head and rank, for ``tree = "best_first:N:FILE"``."""
KEPT = "what was trained is kept"


def finish(
    recipe: Recipe,
    folder: JobFolder,
    method: Exports,
    inference: Inference,
    k: int,
    tell: Callable[[str, int, int], None],
    ranked: Callable[[], list[list[float]]],
) -> None:
    """Export, draft along the dev split of the suites, write the card.

    Args:
        method: with the weights that are to be kept.
        k: longest draft on the suites.
        tell: progress.
        ranked: counts accuracies by head and rank; asked for parallel heads alone.

    Raises:
        SpecbenchError: the disk is full, or the target failed.
    """
    part = folder.head.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    method.export(part)
    tuned = recipe.method in TUNES
    target = answers_of_tuned(recipe, part) if tuned else inference.answers
    drafter = DRAFTERS[recipe.method]
    folder.note(suites=on_suites(target, recipe.validate_, drafter, k, part, tell))
    record: Mapping[str, Any] = folder.noted()
    if tuned:
        own = {"name": recipe.name, "revision": None, "weight_hash": weight_hash(part)}
        record = {**record, "target": own, "tuned_from": record["target"]}
    try:
        if recipe.method in PARALLEL and (rows := ranked()):
            text = json.dumps({"accuracies": rows}) + "\n"
            (part / ACCURACIES).write_text(text, encoding="utf-8")
        write_card(part, recipe, record)
        for file in part.iterdir():
            open_to_readers(file)
        part.replace(folder.head)
    except OSError as error:
        raise unwritten(folder.head, error, KEPT) from error


def accuracies(
    method: Method, corpus: Corpus, prepared: Prepared, tokens: int, device: torch.device
) -> list[list[float]]:
    """By head and rank, how often parallel heads are right on held-out answers.

    Args:
        tokens: of one batch, at most.
    """
    held = corpus.chosen({one.id for one in prepared.validated})
    loaded = (corpus.load(group).to(device) for group in batches(held, tokens, 0, 0))
    return rank_accuracies(cast(Ranked, method), loaded)
