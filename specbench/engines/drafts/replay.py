"""Scores drafts on recorded outputs: one target, any number of drafters, nothing decoded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from specbench import catalog
from specbench.core.arm import ArmSpec
from specbench.core.full_memory import out_of_memory
from specbench.drafters.build import BuildContext
from specbench.engines.drafts.driven import Driven
from specbench.engines.drafts.flight import Flight, Recording
from specbench.engines.drafts.forced import SPAN, ForcedPass
from specbench.engines.on_target import OnRecords
from specbench.errors import PrerequisiteError, SpecbenchError
from specbench.models.opened import OpenedTarget, open_target
from specbench.models.target import PackedTarget


@dataclass(frozen=True, slots=True)
class LoadedDrafter:
    """A drafter with what was loaded for it."""

    driven: Driven
    drafter: Any
    context: BuildContext
    stateful: bool


class DraftReplay(OnRecords):
    """The target of a recorded run with the drafts that are scored on it.

    Args:
        opened: the target.
    """

    def __init__(self, opened: OpenedTarget) -> None:
        super().__init__(opened, "target")
        self._drafters: list[LoadedDrafter] = []

    @classmethod
    def load_target(cls, target: Mapping[str, Any]) -> Self:
        """Open the target of a ``[target]`` table as the native engine does.

        Raises:
            UsageError, PrerequisiteError: no such model, or one that cannot run packed.
        """
        return cls(open_target(target, SPAN))

    def load(self, draft: ArmSpec) -> None:
        """Build a draft's drafter; its rule and its k say nothing here.

        Raises:
            UsageError, PrerequisiteError: what building an arm raises.
        """
        opened = self._opened
        context = BuildContext(
            draft.name,
            opened.loaded,
            opened.model,
            opened.vocabulary,
            opened.prepack,
            kernels=opened.kernels,
        )
        factory: Any = catalog.resolve("drafters", draft.drafter)
        options = dict(draft.drafter_options)
        facts = factory.info.facts(options)
        drafter = factory.build(options, context)
        driven = Driven(
            draft.name, drafter, factory.info.begins_alike(options), facts.law == "dense"
        )
        self._drafters.append(LoadedDrafter(driven, drafter, context, facts.stateful))

    def describe(self) -> dict[str, object]:
        """Target and drafts: models, hashes, numerics, as the native engine describes them."""
        return {
            **self._opened.facts(),
            "drafts": {
                one.driven.name: [draft.facts for draft in one.context.loaded]
                for one in self._drafters
            },
        }

    @property
    def one_by_one(self) -> bool:
        """Whether requests follow each other because a drafter learns from earlier ones."""
        return any(one.stateful for one in self._drafters)

    def refusal(self, recording: Recording) -> str:
        """Why a recording cannot be replayed on this target; empty where it can."""
        if not recording.output:
            return "no output"
        try:
            self.refuse(len(recording.request.token_ids), recording.output)
        except SpecbenchError as error:
            return error.message
        return ""

    def run(
        self,
        recordings: Sequence[Recording],
        ks: Sequence[int],
        batch: int,
        moved: Callable[[int], None] = lambda tokens: None,
    ) -> Iterator[Flight]:
        """Score all drafts on recordings of one temperature; each comes back when it is over.

        Args:
            ks: longest drafts, ascending.
            batch: requests at a time; 1 where ``one_by_one``.
            moved: hears now and then how many tokens were passed since.

        Raises:
            PrerequisiteError: memory is short, or a draft's rows change with how many there are.
            SpecbenchError: a draft that cannot be scored.
        """
        if not recordings:
            return
        size = 1 if self.one_by_one else min(batch, len(recordings))
        for one in self._drafters:
            if one.stateful:
                one.drafter.reset()  # what it learnt from another temperature
        try:
            yield from self._pass(recordings, ks, size).run(recordings, moved)
        except (MemoryError, RuntimeError) as error:
            if not out_of_memory(error):
                raise
            raise PrerequisiteError(
                f"out of memory with {size} requests at a time and {len(self._drafters)} drafts",
                "lower --batch, or replay fewer drafts at a time",
            ) from error
        finally:
            self._forget()

    def _pass(self, recordings: Sequence[Recording], ks: Sequence[int], size: int) -> ForcedPass:
        room = max(one.driven.drafter.room(ks[-1]) for one in self._drafters)
        longest = max(recording.length for recording in recordings)
        for one in self._drafters:
            one.context.check_width(one.driven.drafter.feeds(ks[-1]))
        pool = self._opened.new_pool(size, longest + room + 1)
        for one in self._drafters:
            one.context.use(pool)
        model = self._opened.model
        return ForcedPass(
            PackedTarget(model, self._opened.loaded.device, self._opened.kernels),
            pool,
            model.owner,
            [one.driven for one in self._drafters],
            ks,
            size,
            self._opened.vocabulary,
        )

    def _forget(self) -> None:
        """Let go of the pool; the models stay."""
        self._opened.model.forget()
        for one in self._drafters:
            for model in one.context.models:
                model.forget()
