"""All quality metrics of an arm beside plain: the one way in."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from specbench.core.arm import PLAIN
from specbench.core.quantity import Quantity, nothing
from specbench.quality.answers import Answer
from specbench.quality.definitions import BLEU, CHRF, CODE, DEFINITIONS, JSON
from specbench.quality.paired import NO_PAIR
from specbench.quality.pairs import Pairs, pair
from specbench.quality.rows import Row, bleu_rows, chrf_rows, json_rows, share_rows
from specbench.quality.score import NOT_EXECUTED, Scored, score_answers

_ROWS = {CHRF: chrf_rows, BLEU: bleu_rows, CODE: share_rows, JSON: json_rows}
_NO_ANSWER = "no answer that can be scored"
_PLAIN_ITSELF = "plain is the reference of every difference"
_NO_PLAIN = "plain gave no answer that can be scored"


@dataclass(frozen=True, slots=True)
class Quality:
    """Quality of an arm.

    Attributes:
        metrics: metric -> stat -> quantity, for each of ``definitions.DEFINITIONS``.
        signatures: metric -> how it was computed, to be printed with it; only metrics with a value.
    """

    metrics: Mapping[str, Mapping[str, Quantity]]
    signatures: Mapping[str, str]


def measure(
    answers_arm: Sequence[Answer], answers_plain: Sequence[Answer], *, execute: bool, seed: int
) -> Quality:
    """Score the answers of one arm and of plain, and compare them.

    Args:
        answers_arm, answers_plain: of one arm at one concurrency; temperatures may be mixed.
        execute: whether model-written code may be run.
        seed: of the resampling.

    Raises:
        PrerequisiteError: see ``score_answers``.
    """
    scored = score_answers([*answers_arm, *answers_plain], execute=execute)
    size = len(answers_arm)
    return compare(scored[:size], scored[size:], seed=seed)


def compare(arm: Sequence[Scored], plain: Sequence[Scored], *, seed: int) -> Quality:
    """The same from scored answers: score all arms once, then compare each slice.

    Stats: ``value`` and ``plain`` on the requests that both arms answered, so that ``difference``
    is one minus the other; ``p`` of that difference; ``paired`` and ``dropped`` count answers. For
    chrF also ``sentence_difference``, the mean difference of the sentence scores; for JSON also
    ``surrounded``, the share of the arm's answers with text around the object. For plain itself,
    and where plain has no answer, ``value`` is over all answers of the arm.
    """
    metrics: dict[str, Row] = {}
    signatures: dict[str, str] = {}
    for metric in DEFINITIONS:
        # One score per translation, the sentence chrF, carries the counts of both corpus scores.
        kind = CHRF if metric == BLEU else metric
        own = [scored for scored in arm if scored.metric == kind]
        other = [scored for scored in plain if scored.metric == kind]
        itself = any(scored.answer.arm == PLAIN for scored in own)
        joined = pair(own, () if itself else other)
        alone = _PLAIN_ITSELF if itself else "" if other else _NO_PLAIN
        reason = _unscored(own, other) or ("" if joined.arm or alone else NO_PAIR)
        metrics[metric] = _row(metric, own, joined, reason, alone, seed) | _counts(joined, itself)
        if not reason:
            signatures[metric] = _signature(metric, own)
    return Quality(metrics, signatures)


def _unscored(own: Sequence[Scored], other: Sequence[Scored]) -> str:
    if any(scored.value is None for scored in (*own, *other)):
        return NOT_EXECUTED
    return "" if own else _NO_ANSWER


def _row(
    metric: str, own: Sequence[Scored], joined: Pairs, reason: str, alone: str, seed: int
) -> Row:
    """Everything but the counts: ``reason`` leaves no value, ``alone`` none beside plain."""
    missing = nothing(reason or alone, DEFINITIONS[metric].unit)
    beside = {"plain": missing, "difference": missing, "p": replace(missing, unit="1")}
    if reason:
        return {"value": missing} | beside
    if alone:
        return _ROWS[metric](Pairs(tuple(own), (), 0), seed=seed) | beside
    return _ROWS[metric](joined, seed=seed)


def _counts(joined: Pairs, itself: bool) -> Row:
    counts = {"paired": len(joined.plain), "dropped": 0 if itself else joined.dropped}
    return {name: Quantity(float(count), "answers") for name, count in counts.items()}


def _signature(metric: str, own: Sequence[Scored]) -> str:
    """How a metric was computed; BLEU has one signature per tokenizer, with its languages."""
    if metric == CODE:
        return f"python:{platform.python_version()}"
    if metric == JSON:
        return "json:RFC 8259"
    languages: dict[str, dict[str, None]] = {}
    for scored in own:
        if (segment := scored.segment) is not None:
            signed = segment.chrf_signature if metric == CHRF else segment.bleu_signature
            languages.setdefault(signed, {})[segment.language] = None
    return "; ".join(
        signed if len(languages) == 1 else f"{','.join(sorted(codes))}: {signed}"
        for signed, codes in languages.items()
    )
