"""Quality beside speed: what an arm's answers score, and the paired difference to plain."""

from __future__ import annotations

from collections.abc import Iterator

from specbench.results.summary import Figure, Summary, SummaryRow

DECIDED = 0.05
"""Two-sided p at or below which a difference is called one."""
NAMES = {
    "quality_chrf": "translation chrF",
    "quality_bleu": "translation BLEU",
    "quality_code": "code that passes its tests",
    "quality_json": "valid JSON answers",
}


def qualities(summary: Summary) -> list[str]:
    """One line per arm and metric, over all suites; arms whose output is plain's are left out."""
    loaded = any(row.concurrency != 1 for row in summary.rows)
    return [
        f"T={row.temperature:g} {row.arm}{f' c={row.concurrency}' if loaded else ''}: "
        f"{_line(row, metric)}"
        for row, metric in _scored(summary)
    ]


def signatures(summary: Summary) -> list[str]:
    """How the metrics that have a line were computed."""
    shown = {metric for _, metric in _scored(summary)}
    return [f"{NAMES[m]}: {text}" for m, text in summary.signatures.items() if m in shown]


def _scored(summary: Summary) -> Iterator[tuple[SummaryRow, str]]:
    names = {row.suite for row in summary.rows}
    for row in summary.rows:
        if row.suite != "all" and len(names) > 1:
            continue
        if not row.rule or row.identity.startswith(("identical", "tie")):
            continue
        for metric, stats in row.quality.items():
            if stats["value"].value is not None:
                yield row, metric


def _line(row: SummaryRow, metric: str) -> str:
    stats = row.quality[metric]
    form = ".2f" if stats["value"].unit == "1" else ".1f"
    text = f"{NAMES[metric]} {_number(stats['value'], form)}, plain {_number(stats['plain'], form)}"
    gap, p = stats["difference"], stats["p"].value
    if gap.value is None:
        return f"{text}; no difference: {gap.reason}"
    text += f"; difference {gap.value:+{form}}"
    if gap.low is not None and gap.high is not None:
        text += f" [{gap.low:+{form}}, {gap.high:+{form}}]"
    word = "no p" if p is None else "a difference" if p <= DECIDED else "no difference shown"
    return f"{text}: {word}" + ("" if p is None else f" (p = {p:.2g}, {gap.n} items)")


def _number(figure: Figure, form: str) -> str:
    return "n/a" if figure.value is None else format(figure.value, form)
