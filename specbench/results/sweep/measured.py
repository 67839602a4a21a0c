"""The run of one step of a sweep, as the race looks at it: paired speeds, latencies, refusals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from specbench.core.arm import PLAIN
from specbench.core.manifest import Manifest
from specbench.core.quantity import Missing, Quantity
from specbench.core.request import RequestKey
from specbench.core.step_costs import ArmCosts
from specbench.core.trace import Finish, Trace
from specbench.metrics import acceptance, throughput
from specbench.metrics.degenerate import sound_keys
from specbench.metrics.goodput import TAIL, Objective, attainment, goodput
from specbench.metrics.shorter import shorter_speedups
from specbench.metrics.speedup import speedup, unit_totals
from specbench.metrics.units import only, pairs
from specbench.results.cells import whole_cell
from specbench.results.fidelity import MEANINGLESS
from specbench.results.read import Recorded, read_run
from specbench.results.step_costs import arm_costs, step_costs
from specbench.results.store import RunFolder
from specbench.results.summary import (
    BROKEN,
    Figure,
    Summary,
    SummaryRow,
    figure_of,
    read_summary,
)
from specbench.results.sweep.candidates import Candidate
from specbench.results.sweep.contexts import ContextChoice, by_context
from specbench.results.sweep.halving import Ratio
from specbench.stats.bootstrap import FEWEST_UNITS
from specbench.stats.paired import permutation_ratio


@dataclass
class Measured:
    """One run at one load; implements ``course.Seen``.

    Speeds are on prompts whose plain output does not loop, where there are some of those.

    Args:
        folder: of the run; its tables are written.
        objectives: latencies that requests are to keep.
        alike: names of arms of which a shorter draft is the beginning of a longer one.
    """

    folder: RunFolder
    objectives: Sequence[Objective] = ()
    alike: Sequence[str] = ()
    _ratios: dict[tuple[str, str], Ratio] = field(default_factory=dict)
    _figures: dict[str, dict[str, Figure]] = field(default_factory=dict)
    _choices: dict[tuple[str, ...], list[ContextChoice]] = field(default_factory=dict)

    @cached_property
    def recorded(self) -> Recorded:
        """Everything that happened."""
        return read_run(self.folder)

    @cached_property
    def summary(self) -> Summary:
        """As ``specbench show`` prints it."""
        return read_summary(self.folder)

    @property
    def manifest(self) -> Manifest:
        """What the run is."""
        return self.recorded.manifest

    @property
    def load(self) -> int:
        """Requests at a time."""
        return self.manifest.identity.concurrency[0]

    @cached_property
    def _traces(self) -> Mapping[str, list[Trace]]:
        found: dict[str, list[Trace]] = {arm.name: [] for arm in self.manifest.arms}
        for trace in self.recorded.traces.values():
            found[trace.arm].append(trace)
        return found

    @cached_property
    def sound(self) -> frozenset[RequestKey]:
        """Requests that speeds are taken from."""
        plain = self._traces[PLAIN]
        return sound_keys(plain) or frozenset(trace.key for trace in plain)

    @cached_property
    def prompts(self) -> int:
        """How many prompts that is."""
        return len({(key.suite, key.item) for key in self.sound})

    def traces(self, name: str) -> list[Trace]:
        """The requests of an arm that speeds are taken from."""
        return only(self._traces[name], self.sound)

    def row(self, name: str) -> SummaryRow:
        """An arm's row over everything that was measured."""
        whole = whole_cell(self.manifest)
        rows = self.summary.rows
        return next(row for row in rows if (row.suite, row.arm) == (whole, name))

    def against(self, name: str, other: str) -> Ratio:
        """See ``Seen``: time per token of the other one, over that of this one."""
        if (name, other) not in self._ratios:
            both, seed = pairs(self.traces(name), self.traces(other)), self.manifest.seed
            times, p = speedup(both, seed=seed), None
            if times.low is not None:
                p = permutation_ratio(*unit_totals(both, prefill=False).columns, seed=seed)
            self._ratios[name, other] = Ratio(times, p)
        return self._ratios[name, other]

    def speed(self, name: str) -> Quantity:
        """See ``Seen``."""
        return self.against(name, PLAIN).times

    def refused(self, name: str) -> str:
        """See ``Seen``: failed requests, an output that is not the target's, a missed objective."""
        sent = [t for t in self._traces[name] if t.finish is not Finish.SKIPPED]
        failed = [trace for trace in sent if not trace.ok]
        if failed:
            return f"{len(failed)} of {len(sent)} requests failed: {failed[0].error}"
        word = self.row(name).identity
        if word.startswith(BROKEN):
            return f"its output is not the target's: {word}"
        if self.row(name).lossless == MEANINGLESS:
            return "its acceptance is made up, for timing"
        return self._missed(name)

    def _missed(self, name: str) -> str:
        if not self.objectives:
            return ""
        kept = attainment(self._traces[name], self.objectives)
        if isinstance(kept.value, Missing):
            return f"its latencies are not known: {kept.value.reason}"
        # As long as 95 % are possible, more prompts may show them.
        if kept.high is not None and kept.high < TAIL:
            wanted = ", ".join(map(str, self.objectives))
            return f"{kept.number():.0%} of its requests keep {wanted}"
        return ""

    def figures(self, name: str) -> dict[str, Figure]:
        """What the table shows of an arm."""
        if name not in self._figures:
            self._figures[name] = self._measure(name)
        return self._figures[name]

    def _measure(self, name: str) -> dict[str, Figure]:
        traces, seed = self.traces(name), self.manifest.seed
        found = {
            "speedup": self.speed(name),
            "accept_length": acceptance.accept_length(traces, seed=seed),
            "tokens_per_s_user": throughput.tokens_per_s_user(traces, seed=seed),
            "tokens_per_s_device": throughput.tokens_per_s_device(traces),
        }
        if self.objectives:
            found["attainment"] = attainment(self._traces[name], self.objectives)
            found["goodput"] = goodput(self._traces[name], self.objectives)
        return {key: figure_of(quantity) for key, quantity in found.items()}

    def predicted(self, candidates: Sequence[Candidate]) -> dict[str, float]:
        """See ``Seen``; candidates that were measured have their measured speed-up."""
        found: dict[str, float] = {}
        for arm in self.alike:
            found |= self._predicted([one for one in candidates if one.arm == arm])
        return found

    def _predicted(self, family: Sequence[Candidate]) -> dict[str, float]:
        costs = {
            one.k: cost
            for one in family
            if one.name in self._traces
            and (cost := self._cost(one.name)) is not None
            and cost.drafted is not None
        }
        if len(costs) < 2:
            return {}
        longest = max((one for one in family if one.k in costs), key=lambda one: one.k)
        idle = costs[longest.k].idle
        steps = {k: cost.drafted.step for k, cost in costs.items() if cost.drafted is not None}
        speeds = shorter_speedups(
            self.traces(longest.name),
            [one.k for one in family],
            steps,
            idle.step if idle else 1.0,
            seed=self.manifest.seed,
        )
        measured = {
            one.name: speed.number()
            for one in family
            if one.name in self._traces and (speed := self.speed(one.name)).known
        }
        return {one.name: speeds[one.k] for one in family if one.k in speeds} | measured

    def _cost(self, name: str) -> ArmCosts | None:
        timed, (sampling,) = step_costs(self.manifest), self.manifest.identity.sampling
        if timed is None:
            return None
        found = arm_costs(timed, self.manifest, name, float(sampling["temperature"]), self.load)
        return None if isinstance(found, Missing) else found

    def leading(self, names: Sequence[str]) -> list[str]:
        """See ``Seen``: of buckets with enough prompts for an interval."""
        return [one.best for one in self.contexts(names) if one.prompts >= FEWEST_UNITS]

    def contexts(self, names: Sequence[str]) -> list[ContextChoice]:
        """The choice among these arms in every context bucket, see ``by_context``."""
        if (asked := tuple(names)) not in self._choices:
            self._choices[asked] = by_context(self.folder, names)
        return self._choices[asked]
