"""What lossy rules buy and what they cost."""

from __future__ import annotations

from specbench.report.page.chart import INK, Chart, canvas, colour, known, legend
from specbench.report.page.measured import Measured
from specbench.results.fidelity import LOSSY


def prices(run: Measured) -> Chart | None:
    """Speed-up against total variation per token; None where no arm is lossy."""
    lossy = [arm.name for arm in run.manifest.arms if arm.lossless == LOSSY]
    if not lossy:
        return None
    rows = [
        row
        for row in run.summary.rows
        if row.suite == run.whole
        and row.arm in run.speculative
        and row.figures["price_tv"].value is not None
        and row.figures["speedup"].value is not None
    ]
    if not rows:
        return None
    figure, (axes,) = canvas(1, width=6)
    for arm in run.speculative:
        own = [row for row in rows if row.arm == arm]
        if own:
            axes.plot(
                [row.figures["price_tv"].value for row in own],
                [row.figures["speedup"].value for row in own],
                marker="o",
                linestyle="",
                color=colour(run, arm),
                label=arm,
            )
        for row in own:
            spot = row.figures["price_tv"].value, row.figures["speedup"].value
            axes.annotate(f" T={row.temperature:g}", spot, fontsize=8, color=INK)
    axes.set_xlabel("total variation per token")
    axes.set_ylabel("times plain")
    legend(figure)
    shown = [
        (
            f"{row.temperature:g}",
            row.arm,
            known(row.figures["speedup"].value),
            known(row.figures["price_tv"].value),
            known(row.figures["price_kl"].value),
        )
        for row in rows
    ]
    header = ("temperature", "arm", "speed-up", "TV per token", "KL per token, nats")
    says = "Lossy rules buy speed with tokens that the target would not have drawn."
    return Chart("prices", "Price of lossy rules", says, header, shown, figure)
