"""Result files of SpecForge's bench_eagle3.py, which keep ratios and leave their counts out.

Tokens and verifications are recovered from the ratios, which must then be whole numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from specbench.results.foreign.document import CLOSE, Amount, Count, Document, Foreign, parsed
from specbench.results.foreign.format import Asked, Format, Place, Reading, row
from specbench.results.foreign.imported import ImportedRow, Meaning
from specbench.results.schema import ResultError

SINGLE = frozenset(
    {
        *("aime", "alpaca", "ceval", "cmmlu", "financeqa", "gpqa", "gsm1k", "gsm8k", "humaneval"),
        *("livecodebench", "math500", "mbpp", "mmlu", "mmstar", "scieval", "simpleqa", "svamp"),
    }
)
"""Benchmarks whose questions are one request each."""
TURNS = {"mtbench": 2}
"""Benchmarks of conversations -> their longest; the file does not say how many turns were asked."""

LENGTH, SPEED = "accept_length", "output_throughput"
MEANINGS = (
    Meaning(
        LENGTH,
        "completion tokens / verifications: the token of each request's prefill is in the "
        "numerator; 1.0 also where nothing was verified",
        "accept_length",
        "(tokens - requests) / verifications, tokens and verifications recovered from the ratios; "
        "bounded where a question may be several requests",
    ),
    Meaning(
        SPEED, "completion tokens / seconds of the whole batch", "tokens_per_s_device", "as it is"
    ),
    Meaning("accuracy", "share of answers that are right", how="scores are not imported"),
)


class Metrics(Foreign):
    """One run of a benchmark."""

    latency: Amount
    output_throughput: Amount
    accept_length: Amount
    accuracy: Amount | None = None
    num_questions: Count


class Configured(Foreign):
    """A benchmark under one configuration; its numbers are None of a server that ran already."""

    batch_size: int | None = None
    steps: int | None = None
    topk: int | None = None
    num_draft_tokens: int | None = None
    metrics: list[Metrics]

    @property
    def label(self) -> str:
        """The configuration in the words of its command line."""
        numbers = (self.batch_size, self.steps, self.topk, self.num_draft_tokens)
        return ",".join("?" if number is None else str(number) for number in numbers)


def recognise(document: Document) -> bool:
    """A draft model, and lists of configurations with metrics."""
    rest = [value for key, value in document.objects[0].items() if key != "model"]
    lists = [value for value in rest if isinstance(value, list)]
    return (
        "model" in document.objects[0]
        and len(lists) == len(rest) > 0
        and all(isinstance(one, dict) and "metrics" in one for part in lists for one in part)
    )


def read(document: Document, asked: Asked) -> Reading:
    """Accept length and throughput of every benchmark and configuration."""
    raw, reading = document.only, Reading()
    for suite, values in raw.items():
        if suite == "model":
            continue
        for number, value in enumerate(values):
            place = f"{document.place}: {suite}.{number}"
            found = parsed(Configured, value, place)
            if not found.metrics:
                raise ResultError(f"{place}: metrics is empty", "there is nothing to import")
            where = Place(f"{asked.arm} {found.label}", suite)
            reading.rows += _rows(found.metrics, where, place, reading)
    reading.told(draft=raw["model"])
    reading.notes.append("arms are named by batch size, steps, top-k and draft tokens")
    return reading


def _rows(
    runs: Sequence[Metrics], where: Place, place: str, reading: Reading
) -> Iterator[ImportedRow]:
    questions = sum(run.num_questions for run in runs)
    tokens = [_whole(run.output_throughput * run.latency, f"{place}: tokens") for run in runs]
    if any(run.accuracy is not None for run in runs):
        reading.refuse("accuracy", MEANINGS[-1].how)
    seconds = sum(run.latency for run in runs)
    if seconds > 0:
        value = sum(tokens) / seconds
        yield row(where, "tokens_per_s_device", value, questions, "questions", SPEED)
    turns = 1 if where.suite in SINGLE else TURNS.get(where.suite, 0)
    if any(run.accept_length <= 1 for run in runs):
        reason = "1.0 is also written where nothing was verified"
    elif not turns:
        reason = "how many requests a question is, is not known of this benchmark"
    else:
        made = zip(runs, tokens, strict=True)
        steps = [_whole(n / run.accept_length, f"{place}: verifications") for run, n in made]
        verifications, counted = sum(steps), "verifications"
        low = (sum(tokens) - turns * questions) / verifications
        high = (sum(tokens) - questions) / verifications
        yield row(where, "accept_length", low, verifications, counted, LENGTH, high=high)
        return
    reading.refuse(LENGTH, f"{where.arm}, {where.suite}: {reason}")


def _whole(value: float, what: str) -> int:
    """A count that was recovered from a ratio."""
    if abs(value - round(value)) > CLOSE * max(value, 1.0):
        raise ResultError(
            f"{what} recovered from the ratios are {value:g}, no whole number",
            "the file contradicts itself: import what the tool wrote",
        )
    return round(value)


FORMAT = Format(
    "specforge-eagle3",
    "SpecForge bench_eagle3.py",
    "results_*.jsonl",
    "sgl-project/SpecForge, benchmarks/bench_eagle3.py and benchmarker/utils.py",
    MEANINGS,
    recognise,
    read,
)
