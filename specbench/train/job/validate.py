"""How well a network drafts: the drafter of inference along answers that it was not trained on.

Nothing here runs the training forward. The network is exported, read again by the code that reads
published heads, and drafts at every token of the held-out answers (``engines.drafts``).
"""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from specbench.core.arm import ArmSpec
from specbench.core.full_memory import out_of_memory
from specbench.core.request import Limits, Request, RequestKey, Sampling, Stops
from specbench.engines.drafts.flight import Flight, Recording
from specbench.engines.drafts.replay import DraftReplay
from specbench.errors import PrerequisiteError, SpecbenchError
from specbench.metrics.replayed import ReplayedRequest
from specbench.models.opened import OpenedTarget
from specbench.train.data.asked import Answered

DRAFT = "trained"
BATCH = 16
"""Answers that are drafted along at a time, where memory allows."""


class Exports(Protocol):
    """Something that drafts once it is written."""

    def export(self, folder: Path) -> None:
        """Write it in a layout that its drafter reads."""
        ...


@dataclass(frozen=True, slots=True)
class Drafted:
    """How a draft did on some answers of one temperature.

    Attributes:
        accept_length: tokens behind the first per decode step; expected above temperature 0.
        alphas: by depth, chance that a draft there is accepted.
    """

    accept_length: float
    alphas: tuple[float, ...]


class HeldOut:
    """Scores a network on held-out answers.

    Args:
        opened: opens what verifies the drafts of an exported network.
        answers: held-out answers.
        drafter: catalogue name of what runs the network.
        k: longest draft.
        options: of the drafter, beside ``model``.
    """

    def __init__(
        self,
        opened: Callable[[Path], OpenedTarget],
        answers: Sequence[Answered],
        drafter: str,
        k: int,
        options: Mapping[str, Any],
    ) -> None:
        self._opened, self._drafter, self._k = opened, drafter, k
        self._options = options
        self._batch = BATCH
        self._recordings: dict[float, list[Recording]] = defaultdict(list)
        for one in answers:
            self._recordings[one.temperature].append(_recording(one))

    def of(self, made: Exports, scratch: Path) -> dict[float, Drafted]:
        """Temperature -> how the network as it stands drafts there.

        Args:
            made: the network, or a table.
            scratch: where it is written meanwhile; removed afterwards.

        Raises:
            SpecbenchError: the disk or the memory is full, or the network is broken.
        """
        shutil.rmtree(scratch, ignore_errors=True)
        try:
            made.export(scratch)
            return self.of_folder(scratch)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def of_folder(self, folder: Path) -> dict[float, Drafted]:
        """The same of an exported network.

        Raises:
            PrerequisiteError: memory is short for one answer alone.
            SpecbenchError: the network is broken: an answer could not be drafted along.
        """
        opened = self._opened(folder)
        replay = self._replay(opened, folder)
        found = {}
        for temperature, recordings in sorted(self._recordings.items()):
            while (flights := self._flights(replay, recordings)) is None:
                # What a drafter kept of the answers that did not fit is nobody's any more. The old
                # one goes first: both together need not fit.
                del replay
                replay = self._replay(opened, folder)
            _refuse_broken(flights, temperature)
            found[temperature] = _drafted([flight.result() for flight in flights], self._k)
        return found

    def _replay(self, opened: OpenedTarget, folder: Path) -> DraftReplay:
        replay = DraftReplay(opened)
        options = {**self._options, "model": str(folder)}
        replay.load(ArmSpec(DRAFT, self._drafter, self._k, drafter_options=options))
        return replay

    def _flights(self, replay: DraftReplay, recordings: Sequence[Recording]) -> list[Flight] | None:
        """Drafts along answers; None where memory was short, and from now on half as many do."""
        size = 1 if replay.one_by_one else min(self._batch, len(recordings))
        try:
            return list(replay.run(recordings, [*range(1, self._k + 1)], size))
        except PrerequisiteError as error:
            if not out_of_memory(error.__cause__):
                raise
            if size == 1:
                raise PrerequisiteError(
                    "out of memory while a single answer is drafted along",
                    "train in another folder with a lower validate.conversations or a lower "
                    "data.max_new_tokens; for answers to suites, with a lower "
                    "validate.max_new_tokens",
                ) from error
        # Only here has the error let go of what filled the memory.
        self._batch = size // 2
        return None


def figures(found: Mapping[float, Drafted]) -> dict[str, float]:
    """As columns of the curves; ``accept_length`` is the mean over temperatures."""
    row = {"accept_length": sum(one.accept_length for one in found.values()) / len(found)}
    for temperature, one in found.items():
        row[f"accept_length_t{temperature:g}"] = one.accept_length
    depths = max(len(one.alphas) for one in found.values())
    for depth in range(depths):
        reached = [one.alphas[depth] for one in found.values() if depth < len(one.alphas)]
        row[f"held_alpha_{depth + 1}"] = sum(reached) / len(reached)
    return row


def _refuse_broken(flights: Sequence[Flight], temperature: float) -> None:
    # The others are no fair sample of what it does: not even one may fail.
    failed = [flight for flight in flights if flight.failed]
    if failed:
        first = min(failed, key=lambda flight: flight.number)
        raise SpecbenchError(
            f"{len(failed)} of {len(flights)} answers at temperature {temperature:g} could not be "
            f"drafted along, the first of them {first.recording.request.key.item}: {first.failed}",
            "the network may be broken: train in another folder with a lower train.learning_rate "
            "or another head.dtype; with --data it shares the data of this one",
        )


def _recording(one: Answered) -> Recording:
    key = RequestKey("held out", one.id, 0, one.temperature, 0)
    limits = Limits(len(one.answer))
    request = Request(key, one.prompt, Sampling(one.temperature), limits, Stops())
    return Recording(request, one.answer)


def _drafted(results: Sequence[ReplayedRequest], k: int) -> Drafted:
    scores = [result.drafts[DRAFT] for result in results]
    tokens = sum(result.tokens for result in results)
    steps = sum(score.steps[k].count for score in scores)
    alphas = []
    for depth in range(k):
        reached = sum(score.reached[depth] for score in scores)
        if reached > 0:
            alphas.append(sum(score.overlap[depth] for score in scores) / reached)
    return Drafted(tokens / steps if steps else 1.0, tuple(alphas))
