"""Facts of a training as ``training.json`` keeps them."""

from __future__ import annotations

from collections.abc import Sequence

from specbench.models.load import LoadedModel
from specbench.train.data.asked import Answered
from specbench.train.job.stages import Prepared
from specbench.train.job.vocabulary import outside_share
from specbench.train.loop.checkpoint import Standing


def target_facts(target: LoadedModel) -> dict[str, object]:
    """Which weights were drafted for."""
    return {
        "name": target.location.name,
        "revision": target.location.revision,
        "weight_hash": target.weight_hash,
    }


def data_facts(prepared: Prepared, ids: Sequence[int] | None) -> dict[str, object]:
    """What was trained on, and what was left out; ``ids`` are those that are drafted, None = all.

    ``outside_vocabulary``: share of held-out answer tokens that are not drafted, by source.
    """
    outside = {} if ids is None else outside_share(prepared.held, ids)
    return {
        "train": _side(prepared.train),
        "held_out": _side(prepared.held),
        "left_out": prepared.left_out,
        "draft_vocabulary": None if ids is None else len(ids),
        "outside_vocabulary": {name: round(share, 5) for name, share in outside.items()},
    }


def _side(answers: Sequence[Answered]) -> dict[str, object]:
    return {
        "answers": len(answers),
        "answer_tokens": sum(len(one.answer) for one in answers),
        "prompt_tokens": sum(len(one.prompt) for one in answers),
        "sources": sorted({one.source for one in answers}),
        "temperatures": sorted({one.temperature for one in answers}),
    }


def loop_facts(standing: Standing) -> dict[str, object]:
    """How far the loop went."""
    return {
        "steps": standing.step,
        "of": standing.total,
        "processes": standing.processes,
        "tokens": standing.tokens,
        "hours": round(standing.seconds / 3600, 3),
        "best_step": standing.best_step,
        "held_out_accept_length": standing.best,
        "ended": standing.stopped,
    }
