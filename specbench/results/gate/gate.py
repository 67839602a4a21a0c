"""All checks of a gate, and what they come to together."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from specbench.results.comparable import require_comparable
from specbench.results.compare.compare import WAY_ON, require_requests
from specbench.results.compare.joined import Joined, join
from specbench.results.compare.sides import RunRows, Side, matched, stopped_early
from specbench.results.compare.split import SOUND, Group, groups
from specbench.results.gate.always import fidelity, success
from specbench.results.gate.decide import Checked, Outcome, decide
from specbench.results.gate.noise import NOTHING, noise
from specbench.results.gate.rules import GateRules


@dataclass(frozen=True, slots=True)
class Gated:
    """The checks of one pair of arms.

    Attributes:
        base, new: ``RUN:ARM`` of both.
        requests: that both finished.
        again: A/A runs that were at hand.
        checks: in the order in which they are asked.
        notes: what to know before reading them.
    """

    base: str
    new: str
    requests: int
    again: int
    checks: tuple[Checked, ...]
    notes: tuple[str, ...]

    @property
    def outcome(self) -> Outcome:
        """Failed where one check failed, else not decided where one is not."""
        return worst([check.outcome for check in self.checks])


def worst(outcomes: Collection[Outcome]) -> Outcome:
    """What several outcomes come to together."""
    order = (Outcome.FAIL, Outcome.INCONCLUSIVE)
    return next((one for one in order if one in outcomes), Outcome.PASS)


def gate(
    base: RunRows,
    new: RunRows,
    rules: GateRules,
    *,
    again: Sequence[RunRows] = (),
    lifted: Collection[str] = (),
    assume_same: bool = False,
) -> list[Gated]:
    """Hold a run against a baseline, or two arms of a run against each other.

    Args:
        rules: what is asked.
        again: A/A runs of the baseline's experiment.
        lifted: keys of the identity that may differ.
        assume_same: take what servers do not say as equal.

    Raises:
        NotComparable: what was measured differs, or no request is in both.
        UsageError: it does not follow which arms are meant.
    """
    notes: list[str] = []
    if base.folder != new.folder:
        manifests = [base.manifest, new.manifest]
        taken = require_comparable(manifests, assume_same, lifted=lifted, way_on=WAY_ON)
        notes += [f"taken as equal, not known: {', '.join(taken)}"] if taken else []
        notes += [f"allowed to differ: {', '.join(lifted)}"] if lifted else []
    notes += stopped_early(base, new)
    for other in again:
        require_comparable([base.manifest, other.manifest], True, way_on=WAY_ON)
    return [
        _gated(one, other, new, rules, _sides(again, one.arm.name), notes)
        for one, other in matched(base, new)
    ]


def _sides(again: Sequence[RunRows], arm: str) -> list[Side]:
    return [run.side(arm) for run in again if arm in {a.name for a in run.manifest.arms}]


def _gated(
    base: Side,
    new: Side,
    run: RunRows,
    rules: GateRules,
    again: Sequence[Side],
    notes: Sequence[str],
) -> Gated:
    joined = join(base, new)
    require_requests(base, new, joined)
    unchanged = [join(base, other) for other in again]
    checks = (
        success(base, new, run, rules.allow_failures),
        *fidelity(base, new),
        *_measured(base, joined, rules, unchanged),
    )
    return Gated(base.name, new.name, len(joined), len(again), checks, tuple(notes))


def _measured(
    base: Side, joined: Joined, rules: GateRules, unchanged: Sequence[Joined]
) -> Iterator[Checked]:
    for check in rules.check:
        known = noise(unchanged, check.metric, check.by)
        for group, places in groups(joined, check.by):
            if group.name == SOUND:
                continue
            found = known.get(group, NOTHING)
            where = place(group)
            yield decide(check, joined, places, found, where, base.manifest.seed, rules.alpha)


def place(group: Group) -> str:
    """A group of requests in words."""
    load = f", load {group.concurrency}" if group.concurrency != 1 else ""
    return f"T={group.temperature:g}{load}, {group.name}"
