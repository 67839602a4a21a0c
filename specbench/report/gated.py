"""A gate as rows, as JUnit XML, and as a summary for a pull request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from specbench.core.junit import Case, Element, junit
from specbench.report.cells import Grid
from specbench.report.markdown import table_lines
from specbench.results.gate.decide import Checked, Outcome
from specbench.results.gate.gate import Gated
from specbench.stats.bootstrap import LEVEL

HEADER = ("check", "where", "base", "new", "change {level}", "allowed", "outcome", "why")
ELEMENTS: dict[Outcome, Element] = {Outcome.FAIL: "failure", Outcome.INCONCLUSIVE: "error"}
WORDS = {
    Outcome.PASS: "passed",
    Outcome.FAIL: "FAILED",
    Outcome.INCONCLUSIVE: "not decided",
}


def records(gated: Gated) -> Iterator[dict[str, object]]:
    """One row per check, nothing rounded."""
    for check in gated.checks:
        yield (
            {"base_arm": gated.base, "new_arm": gated.new}
            | asdict(check)
            | {"outcome": str(check.outcome)}
        )


def gate_grid(gated: Gated) -> Grid:
    """The checks as a table."""
    rows = tuple(
        (
            check.what,
            check.where,
            _number(check.base),
            _number(check.new),
            _change(check),
            "" if check.allowed is None else _percent(check.allowed),
            WORDS[check.outcome],
            check.why,
        )
        for check in gated.checks
    )
    header = tuple(name.format(level=_levels(gated)) for name in HEADER)
    return Grid(header, rows, (), gated.notes)


def _levels(gated: Gated) -> str:
    """Coverage of the intervals of a table; those of several looks differ."""
    levels = {check.level for check in gated.checks if check.low is not None} or {LEVEL}
    return f"[{100 * levels.pop():.4g} %]" if len(levels) == 1 else "[interval]"


def heading(gated: Gated) -> str:
    """What was held against what, and what came out."""
    again = f", {gated.again} A/A runs" if gated.again else ""
    return (
        f"{WORDS[gated.outcome]}: {gated.new} against {gated.base}, "
        f"{gated.requests} requests of both{again}"
    )


def gate_junit(found: Sequence[Gated]) -> str:
    """Every check as a test case; what could not be decided is an error."""
    return junit(
        "specbench gate",
        [
            Case(
                f"{gated.new} against {gated.base}",
                f"{check.what}: {check.where}",
                f"{_change(check)} {check.why}".strip(),
                ELEMENTS.get(check.outcome, ""),
            )
            for gated in found
            for check in gated.checks
        ],
    )


def gate_markdown(found: Sequence[Gated]) -> str:
    """A summary fit for a pull request: what failed first, the table folded away."""
    return "\n".join(line for gated in found for line in _section(gated))


def _section(gated: Gated) -> Iterator[str]:
    yield f"### specbench gate {heading(gated)}"
    yield ""
    for check in gated.checks:
        if check.outcome is not Outcome.PASS:
            what = f"**{WORDS[check.outcome]}** {check.what}, {check.where}"
            yield f"- {what}: {_change(check)} {check.why}"
    yield from ("", "<details><summary>All checks</summary>", "")
    yield from table_lines(gate_grid(gated))
    yield from ("", "</details>")
    yield from (f"- {note}" for note in gated.notes)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def _change(check: Checked) -> str:
    if check.ratio is None:
        return ""
    if check.low is None or check.high is None:
        return _percent(check.ratio)
    bounds = ", ".join(f"{100 * (bound - 1):+.1f}" for bound in (check.low, check.high))
    return f"{_percent(check.ratio)} [{bounds}]"


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f} %"
