"""Where prompts come from: written by the target, about the standard library, out of suites."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from specbench.core.request import Sampling
from specbench.core.suite import Prompt
from specbench.errors import UsageError
from specbench.suites.loader import load_suite, select
from specbench.suites.templates import messages_for_turn
from specbench.train.data.library import library_prompts
from specbench.train.data.self_prompts import self_prompts
from specbench.train.data.target_answers import Answering
from specbench.train.recipe.data import (
    Data,
    LibraryPrompts,
    PromptSource,
    SelfPrompts,
    SuitePrompts,
)

Tell = Callable[[str, int, int], None]
"""Called with the name of a source, how many of its prompts are there, how many there will be."""

Record = dict[str, Any]
"""A line of ``prompts.jsonl``: id, source, messages (None where nothing usable was written), and
origin, ``suite/id`` of a prompt that comes from a suite."""

KEYS = ("id", "source", "messages", "origin")


class Sources:
    """Makes the prompts of a recipe that are not there yet.

    Suites are read at once, so that a wrong name is found before anything slow begins.

    Args:
        data: the recipe's ``[data]`` table.
        target: opens what writes prompts; called only where some are wanted.
        tell: progress.

    Attributes:
        left_out: reason -> how many prompts were not made.

    Raises:
        UsageError, PrerequisiteError: a suite that cannot be read, or has no prompt to select.
    """

    def __init__(self, data: Data, target: Callable[[], Answering], tell: Tell) -> None:
        self.left_out: Counter[str] = Counter()
        self._data = data
        self._target = target
        self._tell = tell
        self._suites = {
            source.name: self._of_suite(source)
            for source in data.prompts
            if isinstance(source, SuitePrompts)
        }

    def _of_suite(self, source: SuitePrompts) -> list[Record]:
        suite = load_suite(source.suite)
        chosen = select(suite, split=source.split, limit=source.count)
        fit = [prompt for prompt in chosen if _fits(prompt)]
        if unfit := len(chosen) - len(fit):
            self.left_out["needs tools or arguments of the template"] += unfit
        return [
            _record(f"{source.name}-{p.id}", source.name, _first(p), f"{suite.name}/{p.id}")
            for p in fit
        ]

    def lacks(self, source: PromptSource, there: Mapping[str, Record]) -> bool:
        """Whether some of a source's prompts are not there; the target is not opened for that."""
        if isinstance(source, SelfPrompts):
            return any(name not in there for name in _names(source))
        if isinstance(source, LibraryPrompts):
            return any(record is not None for _, record in self._numbered(source, there))
        return any(record["id"] not in there for record in self._suites[source.name])

    def missing(
        self, source: PromptSource, there: Mapping[str, Record]
    ) -> Iterator[tuple[str, Record | None]]:
        """Ids of a source's prompts, each with its record unless it is there already.

        Raises:
            UsageError: a suite's prompt that is there with other words.
        """
        if isinstance(source, SelfPrompts):
            return self._written(source, there)
        if isinstance(source, LibraryPrompts):
            return self._library(source, there)
        return self._suite(source.name, there)

    def _written(
        self, source: SelfPrompts, there: Mapping[str, Record]
    ) -> Iterator[tuple[str, Record | None]]:
        names = _names(source)
        openers = {name: source.openers[i % len(source.openers)] for i, name in enumerate(names)}
        yield from ((name, None) for name in names if name in there)
        wanted = {name: opener for name, opener in openers.items() if name not in there}
        if not wanted:
            return
        done = len(names) - len(wanted)
        self._tell(source.name, done, len(names))
        for name, text in self_prompts(
            self._target(),
            wanted,
            system=source.system,
            sampling=Sampling(source.temperature, top_p=source.top_p),
            longest=source.max_tokens,
            batch=self._data.batch,
            seed=self._data.seed,
        ):
            done += 1
            messages = None if text is None else _user(text, source.system)
            yield name, _record(name, source.name, messages)
            self._tell(source.name, done, len(names))

    def _library(
        self, source: LibraryPrompts, there: Mapping[str, Record]
    ) -> Iterator[tuple[str, Record | None]]:
        for identity, record in self._numbered(source, there):
            if identity is None:
                self.left_out["the library has no more"] += 1
            else:
                yield identity, record

    def _numbered(
        self, source: LibraryPrompts, there: Mapping[str, Record]
    ) -> Iterator[tuple[str | None, Record | None]]:
        """As ``missing``; without an id where the library has no more."""
        # By number alone: another Python has other functions at the same place.
        held = {
            identity.removeprefix(f"{source.name}-").partition("-")[0]: identity
            for identity, record in there.items()
            if record["source"] == source.name
        }
        made = library_prompts(source.kind, source.count, self._data.seed)
        for number in range(source.count):
            fresh = next(made, None)
            if str(number) in held:
                yield held[str(number)], None
            elif fresh is not None:
                identity = f"{source.name}-{number}-{fresh[0]}"
                yield identity, _record(identity, source.name, _user(fresh[1]))
            else:
                yield None, None

    def _suite(self, name: str, there: Mapping[str, Record]) -> Iterator[tuple[str, Record | None]]:
        for record in self._suites[name]:
            held = there.get(record["id"])
            if held is not None and held["messages"] != record["messages"]:
                raise UsageError(
                    f"prompt {record['origin']} has changed since {record['id']} was taken over",
                    "give its [[data.prompts]] another name, or name another data folder",
                )
            yield record["id"], None if held else record


def _names(source: SelfPrompts) -> list[str]:
    return [f"{source.name}-{number}" for number in range(source.count)]


def _record(identity: str, source: str, messages: object, origin: str = "") -> Record:
    return {"id": identity, "source": source, "messages": messages, "origin": origin}


def _user(text: str, system: str = "") -> list[dict[str, str]]:
    first = [{"role": "system", "content": system}] if system else []
    return [*first, {"role": "user", "content": text}]


def _first(prompt: Prompt) -> list[dict[str, Any]]:
    """What is asked first; later turns would need answers that the target has not given."""
    return [{"role": m["role"], "content": m["content"]} for m in messages_for_turn(prompt, 0, ())]


def _fits(prompt: Prompt) -> bool:
    """Whether role and text of its messages are all that the chat template needs."""
    said = all(m.keys() == {"role", "content"} and m["content"] for m in prompt.context)
    return said and not prompt.passed_on.keys() & {"tools", "chat_template_kwargs"}
