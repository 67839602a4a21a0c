"""Published values beside what a run measured: reproduced, or off by how much and likely why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import TypeAdapter

from specbench.core.manifest import Manifest
from specbench.results.cells import Cell, MeasuredCell, whole_cell
from specbench.results.summary import AnchorCheck, Figure, figure_of

ACCEPT_LENGTHS = (
    *("accept_length", "accept_length_drafted", "accept_length_uncut"),
    *("accept_length_macro", "accepted_mean"),
)
"""Ways to count, of which a publication may have meant another."""

UNSAID = (
    "chat template and thinking",
    "which prompts",
    "sampling defaults",
    "revisions of target and draft",
    "precision of kernels",
)
"""What may differ and no anchor states."""
STATED = {
    "k": "K",
    "max_new_tokens": "longest answer",
    "prompts": "number of prompts",
    "dtype": "dtype",
    "quant": "quantisation",
}
"""What an anchor's setup may state -> in words."""
FASTER = "hardware, batch size and how well the plain arm was tuned"


@dataclass(frozen=True, slots=True)
class Anchor:
    """An [[anchor]] table as a manifest holds it."""

    arm: str
    metric: str
    value: float
    tolerance: float
    source: str
    position: int | None = None
    suite: str | None = None
    temperature: float = 0.0
    setup: Mapping[str, str | int] = field(default_factory=dict)

    @property
    def stat(self) -> str:
        """Where a measured cell has it."""
        return "value" if self.position is None else f"rate_{self.position}"

    def near(self, value: float) -> bool:
        """Whether a value is within the tolerance."""
        return abs(value - self.value) <= self.tolerance * self.value


_ANCHORS = TypeAdapter(tuple[Anchor, ...])


def check_anchors(
    manifest: Manifest,
    cells: Mapping[Cell, MeasuredCell],
    guards: Mapping[Cell, Sequence[str]],
) -> tuple[AnchorCheck, ...]:
    """Every anchor of the experiment, once for each concurrency of the run."""
    anchors = _ANCHORS.validate_python(manifest.experiment.get("anchor", ()))
    return tuple(
        _check(anchor, manifest, place, cells.get(place), guards.get(place, ()))
        for anchor in anchors
        for place in _places(anchor, manifest)
    )


def _places(anchor: Anchor, manifest: Manifest) -> Iterator[Cell]:
    suite = anchor.suite or whole_cell(manifest)
    for concurrency in manifest.identity.concurrency:
        yield Cell(suite, anchor.temperature, concurrency, anchor.arm)


def _check(
    anchor: Anchor,
    manifest: Manifest,
    place: Cell,
    cell: MeasuredCell | None,
    guards: Sequence[str],
) -> AnchorCheck:
    measured = _measured(anchor, place, cell)
    value = measured.value
    reproduced = None if value is None else anchor.near(value)
    return AnchorCheck(
        arm=anchor.arm,
        metric=anchor.metric,
        position=anchor.position,
        suite=place.suite,
        temperature=place.temperature,
        concurrency=place.concurrency,
        published=anchor.value,
        tolerance=anchor.tolerance,
        source=anchor.source,
        measured=measured,
        reproduced=reproduced,
        off=None if value is None else value / anchor.value - 1,
        differs=tuple(_differences(anchor, manifest)),
        causes=() if reproduced is not False else tuple(_causes(anchor, measured, cell, guards)),
    )


def _measured(anchor: Anchor, place: Cell, cell: MeasuredCell | None) -> Figure:
    if cell is None:
        where = f"{place.suite}, temperature {place.temperature:g}"
        return Figure(None, "", reason=f"this run has no cell {where}")
    found = cell.metrics.get(anchor.metric, {}).get(anchor.stat)
    if found is None:
        return Figure(None, "", reason=f"no draft was so long: {anchor.metric} {anchor.stat}")
    return figure_of(found)


def _differences(anchor: Anchor, manifest: Manifest) -> Iterator[str]:
    """Settings of this run that are not those of the publication."""
    identity, arm = manifest.identity, manifest.arm(anchor.arm)
    here: dict[str, str | int] = {
        "engine": arm.engine,
        "dtype": identity.dtype,
        "quant": identity.quant,
        "k": arm.k,
        "max_new_tokens": identity.max_new_tokens,
        "prompts": sum(use.items for use in manifest.suites if anchor.suite in (None, use.name)),
    }
    for name, there in anchor.setup.items():
        if here[name] != there:
            yield f"{name} is {here[name]} here and {there} there"


def _causes(
    anchor: Anchor, measured: Figure, cell: MeasuredCell | None, guards: Sequence[str]
) -> Iterator[str]:
    low, high = anchor.value * (1 - anchor.tolerance), anchor.value * (1 + anchor.tolerance)
    ends = measured.low, measured.high
    if ends[0] is not None and ends[1] is not None and ends[0] <= high and ends[1] >= low:
        yield f"chance: the interval over {measured.n} prompts reaches what is allowed"
    if cell is not None and anchor.metric in ACCEPT_LENGTHS:
        for name in ACCEPT_LENGTHS:
            other = cell.metrics[name]["value"]
            if name != anchor.metric and other.known and anchor.near(other.number()):
                bonus = ", without the recovered or bonus token," if name == "accepted_mean" else ""
                yield f"another definition: {name}{bonus} is {other.number():.3g} here"
    if guards:
        yield f"guards of this cell: {', '.join(guards)}"
    if anchor.metric == "speedup":
        yield FASTER
    unsaid = [words for name, words in STATED.items() if name not in anchor.setup]
    yield f"not compared, because the anchor does not say: {', '.join([*unsaid, *UNSAID])}"
