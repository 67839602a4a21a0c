"""Where the time of a decode step goes."""

from __future__ import annotations

from specbench.core.trace import TickKind
from specbench.metrics.phases import UNATTRIBUTED, by_phase
from specbench.metrics.timeline import NS_PER_MS
from specbench.report.page.chart import COLOURS, INK, Chart, canvas, known, legend
from specbench.report.page.measured import Measured

ORDER = ("draft", "refill", "verify", "accept", "evidence", "commit", UNATTRIBUTED)


def phases(run: Measured) -> Chart | None:
    """Milliseconds per decode step by phase, over all temperatures; with the prediction's error."""
    found: dict[str, dict[str, float]] = {}
    for arm in run.arms:
        ticks = [
            tick
            for (name, _), some in run.recorded.ticks.items()
            if name == arm
            for tick in some
            if tick.kind is TickKind.DECODE and tick.spans
        ]
        if not ticks:
            continue
        found[arm] = {name: ns / NS_PER_MS / len(ticks) for name, ns in by_phase(ticks).items()}
    if not found:
        return None
    named = dict.fromkeys(name for times in found.values() for name in times)
    names = [*(n for n in ORDER if n in named), *(n for n in named if n not in ORDER)]
    figure, (axes,) = canvas(1, height=1.1 + 0.42 * len(found))
    arms = list(found)[::-1]
    left = [0.0] * len(arms)
    for place, name in enumerate(names):
        widths = [found[arm].get(name, 0.0) for arm in arms]
        axes.barh(arms, widths, left=left, color=COLOURS[place % len(COLOURS)], label=name)
        left = [a + b for a, b in zip(left, widths, strict=True)]
    axes.set_xlabel("ms per decode step")
    axes.tick_params(colors=INK)
    legend(figure)
    rows = [(arm, *(known(found[arm].get(name)) for name in names)) for arm in found]
    says = (
        "Mean time of a decode step by phase. A speculative step costs more than plain's and "
        "commits more tokens; the predicted speed-up weighs the one against the other."
    )
    header = ("arm", *names)
    return Chart("phases", "Where the time of a step goes", says, header, rows, figure)
