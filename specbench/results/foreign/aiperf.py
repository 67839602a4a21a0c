"""Summaries of aiperf, ``profile_export_aiperf.json``: metric -> unit and statistics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from specbench.results.foreign.document import Amount, Document, Foreign, agree, parsed
from specbench.results.foreign.format import Asked, Format, Place, Reading, row
from specbench.results.foreign.imported import Meaning
from specbench.results.schema import ResultError

LENGTH, RATE = (
    "spec_decode_token_weighted_acceptance_length",
    "spec_decode_overall_draft_acceptance_rate",
)
STEPS, ACCEPTED, DRAFTED = (
    "total_spec_decode_steps",
    "total_accepted_draft_tokens",
    "total_draft_tokens",
)
LATENCIES = {
    "time_to_first_token": "ttft",
    "time_to_first_output_token": "ttfo",
    "inter_token_latency": "tpot",
    "inter_chunk_latency": "itl_chunk",
    "request_latency": "latency_e2e",
}
"""The file's metrics -> ours."""
SPEED = "output_token_throughput"
PACED = "requests were sent at a rate: idle time between them is inside"
STATS = {"avg": "mean", "p50": "p50", "p90": "p90", "p95": "p95", "p99": "p99"}
TO_MS = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3, "sec": 1e3}

MEANINGS = (
    Meaning(
        LENGTH,
        "1 + accepted / verify steps, summed over requests whose engine reports acceptance; "
        "requests without a verify step are left out",
        "accept_length_drafted",
        "as it is; accept_length would need the steps without a draft",
    ),
    Meaning(
        "spec_decode_acceptance_length",
        "mean over requests of 1 + accepted / verify steps",
        how="a mean of ratios over steps with a draft: no definition here; see the pooled one",
    ),
    Meaning(
        RATE,
        "accepted / drafted tokens over all requests, in percent",
        "accept_rate",
        "divided by 100; over verified tokens, as of every engine that tells totals alone",
    ),
    Meaning(
        "spec_decode_draft_acceptance_rate",
        "mean over requests of accepted / drafted tokens",
        how="a mean of ratios: no definition here; see the pooled one",
    ),
    Meaning(
        "spec_decode_accepted_per_verified",
        "mean over requests of (accepted + steps) / (drafted + steps)",
        how="counts the target's own token as drafted and accepted: no definition here",
    ),
    Meaning(
        "time_to_first_token",
        "first response with content of any kind - request start",
        "ttft",
        "in milliseconds",
    ),
    Meaning(
        "time_to_first_output_token",
        "first response that is not reasoning - request start",
        "ttfo",
        "in milliseconds",
    ),
    Meaning(
        "inter_token_latency",
        "(request latency - time to first token) / (N - tokens of the first response, 1 where the "
        "server does not say), mean over requests",
        "tpot",
        "in milliseconds; equal to ours where the first response holds one token or says how many",
    ),
    Meaning(
        "inter_chunk_latency",
        "gap between two responses with content, all requests together",
        "itl_chunk",
        "in milliseconds",
    ),
    Meaning("request_latency", "last response - request start", "latency_e2e", "in milliseconds"),
    Meaning(
        SPEED,
        "output tokens / time from the first request to the last response",
        "tokens_per_s_device",
        f"as it is; refused where {PACED}",
    ),
    Meaning(
        "output_token_throughput_per_user",
        "mean over requests of 1 / inter_token_latency",
        how="a mean of ratios; tokens_per_s_user is a ratio of totals",
    ),
)
REFUSED = tuple(meaning for meaning in MEANINGS if not meaning.metric)


class Metric(Foreign):
    """Unit and statistics of one metric."""

    unit: str
    avg: Amount | None = None
    p50: Amount | None = None
    p90: Amount | None = None
    p95: Amount | None = None
    p99: Amount | None = None


def recognise(document: Document) -> bool:
    """Metrics with units, and the version of the tool: GenAI-Perf's files have the same shape."""
    first = document.objects[0]
    found = first.get("request_latency", first.get("request_count"))
    return "aiperf_version" in first and isinstance(found, dict) and "unit" in found


def read(document: Document, asked: Asked) -> Reading:
    """Acceptance, latencies and throughput of a run."""
    raw, place = document.only, document.place
    metrics = {
        name: parsed(Metric, value, f"{place}: {name}")
        for name, value in raw.items()
        if isinstance(value, dict) and "unit" in value
    }
    requests = _average(metrics, "request_count")
    if not requests:
        raise ResultError(f"{place}: no request was completed", "there is nothing to import")
    reading, where = Reading(), Place(asked.arm, asked.suite or _dataset(raw))
    _acceptance(metrics, reading, where, place)
    for name, metric in LATENCIES.items():
        if name in metrics:
            for stat, value in _latency(metrics[name], f"{place}: {name}"):
                reading.rows.append(
                    row(where, metric, value, int(requests), "requests", name, stat=stat)
                )
    _speed(metrics, raw, reading, where)
    for meaning in REFUSED:
        if meaning.field in metrics:
            reading.refuse(meaning.field, meaning.how)
    _notes(metrics, raw, reading)
    return reading


def _average(metrics: Mapping[str, Metric], name: str) -> float | None:
    return metrics[name].avg if name in metrics else None


def _latency(metric: Metric, place: str) -> Iterator[tuple[str, float]]:
    """Our statistics of a latency, in milliseconds."""
    if metric.unit not in TO_MS:
        raise ResultError(f"{place}: unit {metric.unit!r} is no time", f"known: {', '.join(TO_MS)}")
    for name, stat in STATS.items():
        value = getattr(metric, name)
        if value is not None:
            yield stat, value * TO_MS[metric.unit]


def _acceptance(metrics: Mapping[str, Metric], reading: Reading, where: Place, place: str) -> None:
    length, rate = _average(metrics, LENGTH), _average(metrics, RATE)
    if length is None:
        reading.refuse(LENGTH, "the file has none: no speculation, or the server reports none")
        return
    steps, accepted = _average(metrics, STEPS), _average(metrics, ACCEPTED)
    drafted = _average(metrics, DRAFTED)
    if length < 1 or (rate is not None and rate > 100):
        raise ResultError(
            f"{place}: {LENGTH} = {length:g}, {RATE} = {rate}: below 1, or above 100 %",
            "import what the tool wrote",
        )
    if steps and accepted is not None:
        agree(place, LENGTH, length, 1 + accepted / steps, f"1 + {ACCEPTED} / {STEPS}")
    counted = int(steps or 0)
    reading.rows.append(
        row(where, "accept_length_drafted", length, counted, "verify steps", LENGTH)
    )
    if rate is not None:
        if drafted and accepted is not None:
            agree(place, RATE, rate, 100 * accepted / drafted, f"{ACCEPTED} / {DRAFTED}, percent,")
        counted = int(drafted or 0)
        reading.rows.append(row(where, "accept_rate", rate / 100, counted, "drafted tokens", RATE))


def _speed(
    metrics: Mapping[str, Metric], raw: Mapping[str, object], reading: Reading, where: Place
) -> None:
    value = _average(metrics, SPEED)
    if value is None:
        return
    if _paced(raw.get("input_config")):
        reading.refuse(SPEED, PACED)
        return
    requests = int(_average(metrics, "request_count") or 0)
    reading.rows.append(row(where, "tokens_per_s_device", value, requests, "requests", SPEED))


def _paced(config: object) -> bool:
    """Whether the configuration asks for a rate of requests, in whichever of its versions."""
    if isinstance(config, list):
        return any(map(_paced, config))
    if not isinstance(config, dict):
        return False
    return any(
        (key in ("request_rate", "fixed_schedule") and bool(value)) or _paced(value)
        for key, value in config.items()
    )


def _dataset(raw: Mapping[str, object]) -> str:
    """The name of the first data set, where the configuration has one."""
    config = raw.get("input_config")
    sets = config.get("datasets") if isinstance(config, dict) else None
    first = sets[0] if isinstance(sets, list) and sets else None
    if not isinstance(first, dict):
        return ""
    return str(first.get("format") or first.get("dataset") or "")


def _notes(metrics: Mapping[str, Metric], raw: Mapping[str, object], reading: Reading) -> None:
    if raw.get("was_cancelled"):
        reading.notes.append("the run was cancelled before its end")
    if errors := _average(metrics, "error_request_count"):
        reading.notes.append(f"requests that failed and are in no figure: {errors:g}")
    if idle := _average(metrics, "spec_decode_zero_step_requests"):
        reading.notes.append(f"requests without a verify step, in no acceptance figure: {idle:g}")
    reading.told(
        aiperf_version=raw.get("aiperf_version"),
        requests=_average(metrics, "request_count"),
        date=raw.get("start_time"),
    )


FORMAT = Format(
    "aiperf",
    "aiperf",
    "profile_export_aiperf.json",
    "ai-dynamo/aiperf, src/aiperf/metrics/types",
    MEANINGS,
    recognise,
    read,
)
