"""What a decode step costs beside one of plain: timed before a run, kept in its manifest.

Costs are ratios, in decode steps of plain at the same temperature and concurrency (ALGORITHMS 2.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class StepCost:
    """Decode steps of one kind: medians over those that were timed.

    Each is taken in plain's median step of the same round.

    Attributes:
        steps: how many were timed; of a batch each counts once.
        verified: drafted nodes per request and step, mean.
        step: all of it.
        d: drafting, the refill after the verification included; None where spans were off.
        v: verification; None where spans were off.
        o: the rest, so that d + v + o = step; None where spans were off.
    """

    steps: int
    verified: float
    step: float
    d: float | None
    v: float | None
    o: float | None


@dataclass(frozen=True, slots=True)
class ArmCosts:
    """The steps of one arm at one temperature and concurrency.

    Attributes:
        t1_ms: median decode step of plain in the rounds of this arm, milliseconds.
        t1_steps: how many of plain's were timed in them.
        drafted: steps that verified a whole draft; None where the pass saw none.
        idle: steps in which nothing was drafted; None where the pass saw none.
        other_prompts: whether no prompt of the pass is measured; small suites have no others.
    """

    temperature: float
    concurrency: int
    t1_ms: float
    t1_steps: int
    drafted: StepCost | None
    idle: StepCost | None
    other_prompts: bool = True


@dataclass(frozen=True, slots=True)
class StepCosts:
    """What one pass over all arms showed.

    Attributes:
        arms: of each arm that drafts.
        reason: why there are no costs; empty where the pass was made.
    """

    arms: Mapping[str, tuple[ArmCosts, ...]] = field(default_factory=dict)
    reason: str = ""

    def of(self, arm: str, temperature: float, concurrency: int) -> ArmCosts | None:
        """The costs of an arm under these conditions; None where there are none."""
        for costs in self.arms.get(arm, ()):
            if (costs.temperature, costs.concurrency) == (temperature, concurrency):
                return costs
        return None
