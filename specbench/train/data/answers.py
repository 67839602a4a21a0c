"""The target's own answers to the prompts: self-distillation (Cai et al. 2401.10774, section 2.3).

A head learns what the target says and not what somebody wrote, so that every answer is drawn from
the target, at a mix of temperatures.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from specbench.core.request import Request, Sampling
from specbench.core.trace import Trace
from specbench.errors import UsageError
from specbench.metrics.degenerate import GRAM
from specbench.train.data.asked import Answered, Asked
from specbench.train.data.records import Records, read_records
from specbench.train.data.target_answers import Answering, refuse_failed, request_of
from specbench.train.recipe.data import Data

SHORTEST = 4
"""Tokens of an answer under which there is nothing to learn from."""
LOOPED = 3
"""Occurrence of a run of eight tokens at which an answer is cut off."""
LONG = "long"
"""Finish of a prompt that was too long to be asked: it is looked at once and not every time."""
FILE = "answers.jsonl"
KEYS = tuple(field.name for field in fields(Answered))


@dataclass(frozen=True, slots=True)
class Answers:
    """What was answered, and why prompts were left out: reason -> how many.

    ``kept`` is in an order that follows from the names alone, not from batches or interruptions.
    """

    kept: list[Answered]
    left_out: Counter[str]

    @property
    def tokens(self) -> int:
        """Tokens of all answers."""
        return sum(len(one.answer) for one in self.kept)


def before_loop(ids: Sequence[int]) -> int:
    """How many tokens of an output come before it goes round in circles; all, where it does not.

    It does where a run of eight tokens occurs for the third time; what is kept ends before that.
    """
    seen: Counter[tuple[int, ...]] = Counter()
    for start in range(len(ids) - GRAM + 1):
        gram = tuple(ids[start : start + GRAM])
        seen[gram] += 1
        if seen[gram] == LOOPED:
            return start
    return len(ids)


def answer(
    data: Data,
    prompts: Sequence[Asked],
    folder: Path,
    target: Callable[[], Answering],
    tell: Callable[[int, int, int], None],
) -> Answers:
    """Make ``answers.jsonl``; what it holds already is not asked again.

    Args:
        data: the recipe's ``[data]`` table.
        prompts: what is asked.
        folder: where data lies.
        target: opens what answers; called only where something is missing.
        tell: called with answers done, answers wanted, and tokens that were emitted since the call.

    Raises:
        UsageError: nothing is left, or answers are missing and another process writes the file.
        PrerequisiteError: a damaged file.
        SpecbenchError: the target failed, for example for want of memory, or the disk is full;
            finished answers are kept.
    """
    path = folder / FILE
    wanted = {f"{p.id}/{n}": (p, n) for p in prompts for n in range(data.answers)}
    if _missing(path, wanted):
        with Records(path) as records:
            # Again: another call may have written between the look and the lock.
            missing = _missing(path, wanted)
            held = len(wanted) - len(missing)
            if missing:
                _ask(
                    data,
                    missing,
                    target(),
                    records,
                    lambda done, tokens: tell(held + done, len(wanted), tokens),
                )
    return _kept(path, wanted)


def _missing(path: Path, wanted: Mapping[str, tuple[Asked, int]]) -> dict[str, tuple[Asked, int]]:
    there = {record["id"] for record in read_records(path, KEYS)}
    # In the order of a hash: what a kill leaves behind is a fair sample, short answers or long.
    return {name: wanted[name] for name in sorted(wanted, key=_place) if name not in there}


def _ask(
    data: Data,
    missing: Mapping[str, tuple[Asked, int]],
    target: Answering,
    records: Records,
    tell: Callable[[int, int], None],
) -> None:
    requests, sources, tokens = dict[str, Request](), dict[str, str](), 0
    stops = target.stops()
    for name, (prompt, number) in missing.items():
        ids = target.render(prompt.messages).token_ids
        if len(ids) > data.max_prompt_tokens:
            records.add(Answered(name, prompt.source, (), (), 0.0, LONG).record())
            continue
        turn = (_place(prompt.id) + number) % len(data.temperatures)
        sampling = Sampling(data.temperatures[turn])
        requests[name] = request_of(name, ids, sampling, data.max_new_tokens, stops, data.seed)
        sources[name] = prompt.source
    done = len(missing) - len(requests)
    for trace in target.run(list(requests.values()), data.batch):
        refuse_failed(trace, "answering")
        name = trace.key.item
        records.add(_answered(trace, requests[name], sources[name]).record())
        done, tokens = done + 1, tokens + len(trace.output_ids)
        tell(done, tokens)


def _place(name: str) -> int:
    """A number that looks random and follows from a name, so that more prompts change no other."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")


def _answered(trace: Trace, request: Request, source: str) -> Answered:
    kept = before_loop(trace.output_ids)
    finish = str(trace.finish) if kept == len(trace.output_ids) else "loop"
    answered = tuple(trace.output_ids[:kept])
    temperature = request.sampling.temperature
    return Answered(trace.key.item, source, request.token_ids, answered, temperature, finish)


def _kept(path: Path, wanted: Container[str]) -> Answers:
    kept, left_out = list[Answered](), Counter[str]()
    for record in read_records(path, KEYS):
        if record["id"] not in wanted:
            continue
        one = Answered.of(record)
        if one.finish == LONG:
            left_out["the prompt is longer than data.max_prompt_tokens"] += 1
        elif len(one.answer) < SHORTEST:
            left_out[f"the answer has fewer than {SHORTEST} tokens"] += 1
        else:
            kept.append(one)
    if not kept:
        reasons = ", ".join(f"{why}: {count}" for why, count in left_out.items())
        raise UsageError(
            f"{path}: no answer is left to train on ({reasons or 'nothing was asked'})",
            "name other sources in [[data.prompts]], or raise data.max_prompt_tokens and name "
            "another data folder",
        )
    kept.sort(key=lambda one: _place(one.id))
    return Answers(kept, left_out)
