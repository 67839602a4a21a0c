"""Published values beside measured ones, a line for each."""

from __future__ import annotations

from specbench.results.summary import AnchorCheck, Summary

TITLE = "Published values"


def anchors(summary: Summary) -> list[str]:
    """A line for every anchor of the run; none where it has none."""
    return [_line(check) for check in summary.anchors]


def _line(check: AnchorCheck) -> str:
    loaded = "" if check.concurrency == 1 else f", load {check.concurrency}"
    named = check.metric if check.position is None else f"{check.metric} {check.position}"
    what = f"{named} of {check.arm}, {check.suite}, T = {check.temperature:g}{loaded}"
    there = f"{check.published:.4g} ± {100 * check.tolerance:g} % in {check.source}"
    if check.measured.value is None or check.off is None:
        return f"anchor not measured: {what}: {there}; {check.measured.reason}"
    here = f"{check.measured.value:.4g}"
    if check.measured.low is not None and check.measured.high is not None:
        here += f" [{check.measured.low:.4g}, {check.measured.high:.4g}]"
    off = f"{100 * check.off:+.1f} %"
    if check.reproduced:
        also = f"; {', '.join(check.differs)}" if check.differs else ""
        return f"anchor reproduced: {what}: {here} here ({off}), {there}{also}"
    causes = "; ".join([*check.differs, *check.causes])
    return f"anchor off by {off}: {what}: {here} here, {there}; likely causes: {causes}"
