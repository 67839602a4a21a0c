"""How many tokens a decode step commits."""

from __future__ import annotations

from collections import Counter

from specbench.report.page.chart import (
    INK,
    Chart,
    Value,
    canvas,
    colour,
    known,
    legend,
    same_height,
)
from specbench.report.page.measured import Measured, place


def lengths(run: Measured) -> Chart | None:
    """Share of decode steps by committed tokens, over all suites."""
    counts: dict[tuple[float, int, str], Counter[int]] = {}
    for trace in run.recorded.traces.values():
        if trace.ok and len(trace.steps) and trace.arm in run.speculative:
            name = trace.key.temperature, trace.concurrency, trace.arm
            counts.setdefault(name, Counter()).update(trace.steps.committed)
    if not counts:
        return None
    settings = run.settings
    figure, plots = canvas(len(settings), width=4.6 * len(settings))
    rows: list[tuple[Value, ...]] = []
    for axes, (temperature, load) in zip(plots, settings, strict=True):
        arms = [arm for arm in run.speculative if (temperature, load, arm) in counts]
        width = 0.8 / max(1, len(arms))
        for number_, arm in enumerate(arms):
            found = counts[temperature, load, arm]
            total = sum(found.values())
            tokens = sorted(found)
            shift = (number_ - (len(arms) - 1) / 2) * width
            shares = [found[n] / total for n in tokens]
            places = [n + shift for n in tokens]
            axes.bar(places, shares, width * 0.92, color=colour(run, arm), label=arm)
            rows += [
                (f"{temperature:g}", str(load), arm, str(n), str(found[n]), known(share))
                for n, share in zip(tokens, shares, strict=True)
            ]
        axes.set_title(place(temperature, load), color=INK)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_xlabel("tokens of a step")
    plots[0].set_ylabel("share of steps")
    same_height(plots)
    legend(figure)
    header = ("temperature", "load", "arm", "tokens", "steps", "share")
    says = (
        "Share of decode steps that committed so many tokens; 1 means that nothing drafted was "
        "accepted, 0 that an end of the answer cut the step."
    )
    return Chart("lengths", "Tokens per step", says, header, rows, figure)
