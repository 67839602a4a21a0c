"""A draft model at made-up acceptance: measured speed-up against the predicted one."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from specbench.core.trace import Tick, TickKind
from specbench.decoding.loop import DecodeLoop
from specbench.decoding.protocols import Drafter, Rule
from specbench.decoding.sequence import Sequence as DecodedSequence
from specbench.drafters.draft_model import DraftModelDrafter
from specbench.drafters.none import NoDrafter
from specbench.models.device import recorder_for
from specbench.models.graphs.captured import Graphs
from specbench.models.packed import PackedModel
from specbench.models.target import PackedTarget
from specbench.verify.synthetic import RULE as SYNTHETIC
from specbench.verify.target_match import RULE as TARGET_MATCH

from .figures import Report
from .stage import Stage

ROUNDS = 5
"""Runs of each arm, taken in turns; the first warms up and the second gives the prediction."""


def speculation(stage: Stage, report: Report) -> None:
    """Plain and speculative runs of one request in turns."""
    sizes, graphs = stage.sizes, stage.graphs()
    target = stage.packed(graphs)
    draft = stage.packed(graphs, network=stage.draft)
    pool = stage.pool([target, draft], 1, sizes.context + sizes.tokens + sizes.k + 2)
    plain = _Arm(stage, target, NoDrafter(), TARGET_MATCH, 0, graphs)
    rule = SYNTHETIC.configure({"rate": sizes.acceptance}, sizes.k)
    drafter = DraftModelDrafter(draft, sizes.target["vocab_size"], 10**6, sampled=False)
    fast = _Arm(stage, target, drafter, rule, sizes.k, graphs)
    rates: dict[str, list[float]] = {"plain": [], "speculative": []}
    steps: dict[str, list[float]] = {"plain": [], "speculative": []}
    for number in range(ROUNDS):
        if graphs is not None:
            graphs.capturing = number == 0
        for name, arm in (("plain", plain), ("speculative", fast)):
            (row,) = stage.requests(pool, 1, sizes.tokens, 0.0)
            step = arm.decode(row)
            pool.release(row.slab)
            if number == 1:
                steps[name].append(step)
            elif number > 1:
                rates[name].append(arm.seconds_per_token)
    length = (1 - sizes.acceptance ** (sizes.k + 1)) / (1 - sizes.acceptance)
    predicted = length * steps["plain"][0] / steps["speculative"][0]
    measured = statistics.median(rates["plain"]) / statistics.median(rates["speculative"])
    how = f"draft model, K = {sizes.k}, acceptance {sizes.acceptance}, one request"
    report.add("accept length", fast.accept_length, "tokens/step", f"{how}; {length:.3f} expected")
    report.add("predicted speed-up", predicted, "x", "expected length over the cost of a step")
    report.add("measured speed-up", measured, "x", f"{how}; plain and speculative in turns")
    off = abs(measured / predicted - 1)
    report.add("prediction: off by", off, "1", "measured over predicted", aim=0.1)


class _Arm:
    """One way to decode.

    Attributes:
        seconds_per_token: of the last run, in its decode steps.
        accept_length: of all runs.
    """

    def __init__(
        self,
        stage: Stage,
        target: PackedModel,
        drafter: Drafter,
        rule: Rule,
        k: int,
        graphs: Graphs | None,
    ) -> None:
        self._recorder = recorder_for(stage.device, overlapped=False, spans=False)
        if graphs is not None:
            self._recorder.forwards = graphs.forwards
        self._drafter = drafter
        self._loop = DecodeLoop(
            PackedTarget(target, stage.device), drafter, rule, k, self._recorder, False
        )
        self._committed: list[int] = []
        self.seconds_per_token = 0.0

    @property
    def accept_length(self) -> float:
        """Committed tokens per step."""
        return statistics.fmean(self._committed)

    def decode(self, row: DecodedSequence) -> float:
        """Decode a request to its end; returns the median seconds of a step."""
        self._loop.prefill([row])
        while row.finish is None:
            self._loop.step([row])
        self._drafter.release([row])
        # The last steps draft less, as little is left to decode.
        ticks = _decode_ticks(self._recorder.drain())
        whole = len(ticks) - 2
        self._committed += row.trace.steps.committed[:whole]
        seconds = [(tick.end_ns - tick.start_ns) / 1e9 for tick in ticks[:whole]]
        self.seconds_per_token = sum(seconds) / sum(row.trace.steps.committed[:whole])
        return statistics.median(seconds)


def _decode_ticks(ticks: Sequence[Tick]) -> list[Tick]:
    return [tick for tick in ticks if tick.kind is TickKind.DECODE]
