"""Result files of ``vllm bench serve --save-result``.

Acceptance comes from the server's counters before and after the measured requests: over steps that
had a draft, accepted tokens behind the end inside, whoever sent the request.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from specbench.results.foreign.document import Amount, Count, Document, Foreign, agree, parsed
from specbench.results.foreign.format import (
    MILLISECONDS,
    STATISTICS,
    Asked,
    Format,
    Place,
    Reading,
    row,
)
from specbench.results.foreign.imported import ImportedRow, Meaning
from specbench.results.schema import ResultError

LENGTH, RATE, POSITIONS = (
    "spec_decode_acceptance_length",
    "spec_decode_acceptance_rate",
    "spec_decode_per_position_acceptance_rates",
)
NO_COUNTERS = "the file has no counters: no speculation, or the server showed none at /metrics"
CHAT = "on the chat route the first event holds the role alone, which adds a gap that is none"
PACED = "requests were spread over time: idle time between them is inside"
LATENCIES = {"ttft": "ttft", "tpot": "tpot", "itl": "itl_chunk", "e2el": "latency_e2e"}
"""The file's words -> ours."""

MEANINGS = (
    Meaning(
        LENGTH,
        "1 + accepted / drafts, from the server's counters before and after: steps without a draft "
        "are left out, tokens behind the end and other clients' requests are inside, prefill "
        "tokens are not",
        "accept_length_drafted",
        "as it is; accept_length would need the steps without a draft",
    ),
    Meaning(
        RATE,
        "accepted / drafted tokens, in percent",
        "accept_rate",
        "divided by 100; over verified tokens, as of every engine that tells totals alone",
    ),
    Meaning(
        POSITIONS,
        "accepted at a position / steps with a draft",
        "accept_pos",
        "as it is, rate_1 for the file's position 0",
    ),
    Meaning(
        "ttft_ms",
        "first event with a choice - the request was sent; on the chat route vLLM sends the role "
        "together with the first token",
        "ttft",
        "as it is",
    ),
    Meaning(
        "tpot_ms",
        "(last event - first event) / (N - 1), mean over requests; N from usage, else the text "
        "tokenised again",
        "tpot",
        "as it is; equal to ours where the first event holds one token",
    ),
    Meaning(
        "itl_ms",
        "gap between two events, one sample per event, however many tokens it holds",
        "itl_chunk",
        f"as it is; refused where {CHAT}",
    ),
    Meaning("e2el_ms", "last event - the request was sent", "latency_e2e", "as it is"),
    Meaning(
        "output_throughput",
        "sum of N / time from the first request to the last answer",
        "tokens_per_s_device",
        f"as it is where all requests were sent at once; refused where {PACED}",
    ),
)


class Result(Foreign):
    """The fields that are read by name; those of latencies are found by pattern."""

    model_id: str
    completed: Count
    failed: Count = 0
    total_output_tokens: Count
    duration: Amount
    output_throughput: Amount
    request_rate: float | str = "inf"
    ramp_up_strategy: str | None = None
    max_concurrency: int | None = None
    endpoint_type: str = ""
    date: str = ""
    spec_decode_acceptance_length: Amount | None = None
    spec_decode_acceptance_rate: Amount | None = None
    spec_decode_num_drafts: Count | None = None
    spec_decode_draft_tokens: Count | None = None
    spec_decode_accepted_tokens: Count | None = None
    spec_decode_per_position_acceptance_rates: list[Amount] | None = None


class Latency(Foreign):
    """One statistic of a latency, in milliseconds."""

    value: Amount


def recognise(document: Document) -> bool:
    """Keys that this tool writes; SGLang's tool of the same descent has no tokenizer_id."""
    wanted = {"model_id", "tokenizer_id", "completed", "output_throughput"}
    return wanted <= document.objects[0].keys()


def read(document: Document, asked: Asked) -> Reading:
    """Acceptance, latencies and throughput of one result."""
    raw, place = document.only, document.place
    found = parsed(Result, raw, place)
    if not found.completed:
        raise ResultError(f"{place}: no request was completed", "there is nothing to import")
    reading, where = Reading(), Place(asked.arm, asked.suite)
    _acceptance(found, reading, where, place)
    chat = found.endpoint_type.endswith("chat")
    for name, stat, value in _latencies(raw, place):
        if name == "itl" and chat:
            continue
        metric, count = LATENCIES[name], found.completed
        if value or name != "tpot":
            reading.rows.append(
                row(where, metric, value, count, "requests", f"{name}_{MILLISECONDS}", stat=stat)
            )
    if chat and any(name == "itl" for name, _, _ in _latencies(raw, place)):
        reading.refuse("itl_ms", CHAT)
    _throughput(found, reading, where, place)
    if found.failed:
        reading.notes.append(f"requests that failed and are in no figure: {found.failed}")
    reading.told(
        model_id=found.model_id,
        request_rate=found.request_rate,
        max_concurrency=found.max_concurrency,
        requests=found.completed,
        endpoint=found.endpoint_type,
        date=found.date,
    )
    return reading


def _latencies(raw: dict[str, object], place: str) -> Iterator[tuple[str, str, float]]:
    """Name, statistic and milliseconds of every latency in the file."""
    for key, value in raw.items():
        match = re.fullmatch(r"(mean|median|p\d+)_(ttft|tpot|itl|e2el)_ms", key)
        if match:
            checked = parsed(Latency, {"value": value}, f"{place}: {key}")
            yield match[2], STATISTICS.get(match[1], match[1]), checked.value


def _acceptance(found: Result, reading: Reading, where: Place, place: str) -> None:
    length, rate = found.spec_decode_acceptance_length, found.spec_decode_acceptance_rate
    if length is None or rate is None:
        reading.refuse(LENGTH, NO_COUNTERS)
        return
    _agree(found, length, rate, place)
    drafts, drafted = found.spec_decode_num_drafts or 0, found.spec_decode_draft_tokens or 0
    steps = "drafted steps"
    reading.rows += [
        row(where, "accept_length_drafted", length, drafts, steps, LENGTH),
        row(where, "accept_rate", rate / 100, drafted, "drafted tokens", RATE),
    ]
    positions = found.spec_decode_per_position_acceptance_rates or []
    for k, share in enumerate(positions, 1):
        reading.rows.append(
            row(where, "accept_pos", share, drafts, steps, POSITIONS, stat=f"rate_{k}")
        )
    reading.k = len(positions) or None


def _agree(found: Result, length: float, rate: float, place: str) -> None:
    """The figures follow from the counts beside them; older files have no counts."""
    if length < 1 or rate > 100:
        raise ResultError(
            f"{place}: {LENGTH} = {length:g} and {RATE} = {rate:g}: below 1, or above 100 %",
            "import what the tool wrote",
        )
    drafts, drafted = found.spec_decode_num_drafts, found.spec_decode_draft_tokens
    accepted = found.spec_decode_accepted_tokens
    if drafts and drafted and accepted is not None:
        agree(place, LENGTH, length, 1 + accepted / drafts, "1 + accepted / drafts")
        agree(place, RATE, rate, 100 * accepted / drafted, "accepted / drafted, in percent,")
    if positions := found.spec_decode_per_position_acceptance_rates:
        agree(place, f"sum of {POSITIONS}", sum(positions), length - 1, f"{LENGTH} - 1")


def _throughput(found: Result, reading: Reading, where: Place, place: str) -> None:
    computed = found.total_output_tokens / found.duration if found.duration else 0.0
    agree(place, "output_throughput", found.output_throughput, computed, "tokens / duration")
    if found.request_rate != "inf" or found.ramp_up_strategy:
        reading.refuse("output_throughput", PACED)
        return
    reading.rows.append(_speed(found, where))


def _speed(found: Result, where: Place) -> ImportedRow:
    field = "output_throughput"
    value = found.output_throughput
    return row(where, "tokens_per_s_device", value, found.completed, "requests", field)


FORMAT = Format(
    "vllm-bench",
    "vllm bench serve",
    "result file of --save-result, *.json",
    "vllm-project/vllm, vllm/benchmarks/serve.py",
    MEANINGS,
    recognise,
    read,
)
