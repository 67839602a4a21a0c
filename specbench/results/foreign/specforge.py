"""Reports of SpecForge's benchmark command, and the flat result of its older SGLang script.

SGLang's completion tokens contain the token of the prefill, which no verification made; what a stop
cuts off is not inside. With the number of requests both become ours exactly.
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from specbench.results.foreign.document import Amount, Count, Document, Foreign, agree, parsed
from specbench.results.foreign.format import Asked, Format, Place, Reading, row
from specbench.results.foreign.imported import ImportedRow, Meaning
from specbench.results.schema import ResultError

LENGTH, SPEED, MACRO = "accept_length", "throughput_tokens_per_second", "average_acceptance_length"
MEANINGS = (
    Meaning(
        LENGTH,
        "output tokens / verifications: the token of each request's prefill is in the numerator",
        "accept_length",
        "(output_tokens - requests) / spec_verify_count",
    ),
    Meaning(
        SPEED,
        "output tokens / wall time of all requests of a task",
        "tokens_per_s_device",
        "as it is",
    ),
    Meaning(
        MACRO,
        "mean over requests of the server's tokens / verifications, prefill token inside",
        how="a mean of ratios whose counts are not in the file; accept_length is made from totals",
    ),
    Meaning("accuracy", "share of scored answers that are right", how="scores are not imported"),
)
NO_COUNTS = "nothing was verified: plain decoding, or the server sends no counts"
DISTINCT = "name them apart, or split the file"


class Metrics(Foreign):
    """What was measured of one task."""

    num_samples: Count
    num_requests: Count
    output_tokens: Count
    latency_seconds: Amount
    throughput_tokens_per_second: Amount
    accept_length: Amount | None = None
    spec_verify_count: Count | None = None
    accuracy: Amount | None = None


class Task(Foreign):
    """Which prompts."""

    name: str


class Config(Foreign):
    """How the server was started."""

    label: str


class Run(Foreign):
    """One task under one configuration."""

    config: Config | None = None
    task: Task
    metrics: Metrics


class Report(Foreign):
    """The whole file."""

    model: str
    draft_model: str | None = None
    concurrency: Count
    created_at: str = ""
    sampling: dict[str, object] = Field(default_factory=dict)
    runs: list[Run]


class Flat(Foreign):
    """The result of the older script: one data set, one request per sample."""

    backend: str
    dataset: str
    samples: Count
    output_tokens: Count
    latency_seconds: Amount
    throughput_tokens_per_second: Amount
    average_acceptance_length: Amount | None = None
    spec_verify_count: Count | None = None


def recognise(document: Document) -> bool:
    """A report with runs of tasks, or the older flat result."""
    first = document.objects[0]
    return {"runs", "draft_model"} <= first.keys() or {"dataset", SPEED, "backend"} <= first.keys()


def read(document: Document, asked: Asked) -> Reading:
    """Accept length and throughput of every task and configuration."""
    if "runs" not in document.only:
        return _read_flat(document, asked)
    place = document.place
    report = parsed(Report, document.only, place)
    reading = Reading()
    if not report.runs:
        raise ResultError(f"{place}: holds no run", "there is nothing to import")
    labels = list(dict.fromkeys(run.config.label if run.config else "" for run in report.runs))
    for number, run in enumerate(report.runs):
        label = run.config.label if run.config and len(labels) > 1 else ""
        where = Place(f"{asked.arm} {label}".strip(), run.task.name)
        reading.rows += _task(run.metrics, where, f"{place}: runs.{number}", reading)
    places = [(one.arm, one.suite, one.metric) for one in reading.rows]
    if len(set(places)) < len(places):
        raise ResultError(f"{place}: a task is there twice under one configuration", DISTINCT)
    reading.told(
        model_id=report.model,
        draft=report.draft_model,
        concurrency=report.concurrency,
        temperature=report.sampling.get("temperature"),
        date=report.created_at,
    )
    return reading


def _task(found: Metrics, where: Place, place: str, reading: Reading) -> Iterator[ImportedRow]:
    requests, tokens = found.num_requests, found.output_tokens
    if found.spec_verify_count and found.accept_length is not None:
        said = tokens / found.spec_verify_count
        agree(place, LENGTH, found.accept_length, said, "output_tokens / spec_verify_count")
        yield verified(where, tokens, requests, found.spec_verify_count, place)
    else:
        reading.refuse(LENGTH, f"{where.arm}, {where.suite}: {NO_COUNTS}")
    if found.accuracy is not None:
        reading.refuse("accuracy", MEANINGS[-1].how)
    speed = found.throughput_tokens_per_second
    agree(place, SPEED, speed, tokens / max(found.latency_seconds, 1e-12), "tokens / seconds")
    yield row(where, "tokens_per_s_device", speed, requests, "requests", SPEED)


def verified(
    where: Place, tokens: int, requests: int, verifications: int, place: str, field: str = LENGTH
) -> ImportedRow:
    """Accept length without the prefill's tokens; ResultError where a step would commit none."""
    committed = tokens - requests
    if committed < verifications:
        raise ResultError(
            f"{place}: {tokens} tokens of {requests} requests in {verifications} verifications: "
            "less than one token each",
            "the counts do not belong together: import what the tool wrote",
        )
    value, counted = committed / verifications, "verifications"
    return row(where, "accept_length", value, verifications, counted, field)


def _read_flat(document: Document, asked: Asked) -> Reading:
    place, reading = document.place, Reading()
    found = parsed(Flat, document.only, place)
    where = Place(asked.arm, found.dataset)
    if found.spec_verify_count:
        tokens, field = found.output_tokens, MACRO
        counts = found.samples, found.spec_verify_count
        reading.rows.append(verified(where, tokens, *counts, place, field=LENGTH))
        reading.refuse(field, MEANINGS[2].how)
    else:
        reading.refuse(LENGTH, NO_COUNTS)
    speed = found.throughput_tokens_per_second
    computed = found.output_tokens / max(found.latency_seconds, 1e-12)
    agree(place, SPEED, speed, computed, "tokens / seconds")
    speeds = row(where, "tokens_per_s_device", speed, found.samples, "requests", SPEED)
    reading.rows.append(speeds)
    reading.told(backend=found.backend, requests=found.samples)
    return reading


FORMAT = Format(
    "specforge",
    "SpecForge",
    "report of its benchmark command, *.json",
    "sgl-project/SpecForge, specforge/benchmarks/runner.py and report.py",
    MEANINGS,
    recognise,
    read,
)
