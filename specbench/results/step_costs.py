"""The costs of steps that a manifest holds, for each cell of the table."""

from __future__ import annotations

from pydantic import TypeAdapter

from specbench.core.manifest import Manifest
from specbench.core.quantity import Absence, Missing
from specbench.core.step_costs import ArmCosts, StepCosts
from specbench.results.calibrated import calibrated

PREDICTION = frozenset({"predicted_speedup", "prediction_error"})
"""Metrics that need them: tables of runs from before the calibration do without."""

_COSTS = TypeAdapter(StepCosts)


def step_costs(manifest: Manifest) -> StepCosts | None:
    """What was timed before the run; None for runs from before steps were timed.

    Raises:
        ResultError: the manifest holds something else in that place.
    """
    return calibrated(manifest, "steps", _COSTS)


def arm_costs(
    found: StepCosts, manifest: Manifest, arm: str, temperature: float, concurrency: int
) -> ArmCosts | Missing:
    """The costs of an arm at a temperature and a concurrency, or why there are none."""
    if found.reason:
        return Missing(Absence.NOT_AVAILABLE, found.reason)
    if not manifest.arm(arm).k:
        return Missing(Absence.NOTHING_TO_MEASURE, "the arm drafts nothing (K = 0)")
    costs = found.of(arm, temperature, concurrency)
    unseen = Missing(Absence.NOT_AVAILABLE, "no step could be timed before the run")
    return unseen if costs is None else costs
