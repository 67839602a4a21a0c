"""The one sentence under the table: which arm won, by how much, and what the run could show."""

from __future__ import annotations

from collections.abc import Sequence

from specbench.results.summary import Figure, SummaryRow

EXPLAINED = frozenset(
    {
        "counted_estimated",
        "degenerate",
        "first_request_slow",
        "k_effective",
        "late_requests",
        "not_streamed",
        "one_server_start",
        "output_lengths_differ",
        "output_unjudged",
        "retried",
        "seed_ignored",
        "split_by_resume",
        "stateful",
        "time_unattributed",
        "ttft_outlier",
    }
)
"""Guards that explain a figure without making it worthless; all others keep an arm unranked.

An interruption splits one interleaving unit at most, so ``split_by_resume`` explains as well.
"""

RUN_WIDE = frozenset({"one_server_start"})
"""Guards that say of every cell of a run the same: the warning is enough, no row is marked."""


UNRANKED = frozenset({"lossy", "meaningless"})
"""States of a rule that keep an arm out of the ranking."""


def sentence(rows: Sequence[SummaryRow]) -> str:
    """One clause per temperature and concurrency, over the cells that pool all suites.

    An arm wins only where its whole interval is above 1; an interval that holds 1 shows nothing.
    Arms of lossy rules are not ranked with lossless ones: their speed has another price.
    """
    settings = dict.fromkeys((row.temperature, row.concurrency) for row in rows)
    several = len({concurrency for _, concurrency in settings}) > 1
    clauses = []
    for setting in settings:
        chosen = [row for row in rows if (row.temperature, row.concurrency) == setting]
        place = f"at temperature {setting[0]:g}"
        place += f" and concurrency {setting[1]}" if several else ""
        clauses.append(f"{place}, {_clause(chosen)}")
    text = "; ".join(clauses)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _clause(rows: Sequence[SummaryRow]) -> str:
    lossy = [row for row in rows if row.lossless == "lossy" and headline(row).value is not None]
    lossless = [row for row in rows if row.lossless not in UNRANKED]
    timed = [row for row in rows if row.lossless == "meaningless"]
    if timed and not lossy and all(headline(row).value is None for row in lossless):
        return "arms with made-up acceptance were timed; nothing is ranked"
    if lossy and all(headline(row).value is None for row in lossless):
        return f"no speed-up of a lossless arm was measured{_beside(lossy)}"
    return _ranked(lossless) + _beside(lossy)


def _beside(lossy: Sequence[SummaryRow]) -> str:
    """The fastest lossy arm, with its price where one is known."""
    if not lossy:
        return ""
    best = max(lossy, key=lambda row: headline(row).value or 0.0)
    text = f"; of the lossy arms {best.arm} was the fastest at {headline(best).value:.2f}x"
    price = best.figures["price_tv"].value if "price_tv" in best.figures else None
    if price is not None:
        least = "" if best.price_exact else "at least "
        text += f", for a total variation of {least}{price:.3f} per token"
    return text


def _ranked(rows: Sequence[SummaryRow]) -> str:
    measured = [row for row in rows if headline(row).value is not None]
    ranked = [row for row in measured if not set(row.guards) - EXPLAINED]
    if not measured:
        return "no speed-up could be measured"
    if not ranked:
        reasons = ", ".join(sorted({g for row in measured for g in row.guards} - EXPLAINED))
        return f"no arm is ranked ({reasons})"
    best = max(ranked, key=lambda row: headline(row).value or 0.0)
    return f"{_claim(best)} over {_basis(best)} ({_limit(best)})"


def headline(row: SummaryRow) -> Figure:
    """The speed-up that is claimed: without looping outputs where some loop."""
    share, sound = row.figures["degenerate_share"].value, row.figures["speedup_sound"]
    return sound if share and sound.value is not None else row.figures["speedup"]


def _claim(row: SummaryRow) -> str:
    figure = headline(row)
    low, high = figure.low, figure.high
    size = f"{figure.value:.2f}x plain"
    unproven = f"no arm was shown to be faster than plain: the best, {row.arm}, ran at {size}"
    if low is None or high is None:
        return f"{unproven} without an interval"
    size += f" [95 % interval {low:.2f} to {high:.2f}]"
    if low > 1:
        return f"{row.arm} had the largest speed-up, {size},"
    if high < 1:
        return f"every arm was slower than plain: the best, {row.arm}, ran at {size}"
    return f"{unproven} [95 % interval {low:.2f} to {high:.2f}]"


def _basis(row: SummaryRow) -> str:
    figure = headline(row)
    if figure is row.figures["speedup"]:
        return f"{row.prompts} prompts"
    return f"the {figure.n} of {row.prompts} prompts without looping output"


def _limit(row: SummaryRow) -> str:
    smallest = row.figures["detectable"].value
    if smallest is None:
        return "too few prompts to say which difference could be shown"
    return f"the smallest difference this run could show is {100 * smallest:.1f} %"
