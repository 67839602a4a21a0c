"""The checks of two arms of a run that goes on: what is decided stays so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from specbench.results.compare.joined import NEW, Joined, join
from specbench.results.compare.sides import Side
from specbench.results.compare.split import SOUND, groups
from specbench.results.gate.decide import Checked, Outcome
from specbench.results.gate.gate import place
from specbench.results.gate.looks import Look, decide_at
from specbench.results.gate.rules import GateRules

COVERAGE = "coverage"
Cell = tuple[str, float, int]
"""Suite, temperature, concurrency."""


@dataclass(slots=True)
class Watched:
    """Measured checks over several looks.

    A check that passed or failed at a look is not asked again: what that look may have erred is
    counted, and what later ones might is not.

    Attributes:
        rules: what is asked.
        planned: cells that the run will measure.
        requests: that both arms have finished.
    """

    rules: GateRules
    planned: frozenset[Cell]
    requests: int = 0
    _checks: dict[tuple[int, str], Checked] = field(default_factory=dict)
    _lacking: frozenset[Cell] = frozenset()

    def look(self, base: Side, new: Side, look: Look) -> None:
        """Ask what is open again."""
        joined = join(base, new)
        self.requests = len(joined)
        cells = (joined.values(NEW, name) for name in ("suite", "temperature", "concurrency"))
        seen = {(suite, float(t), int(load)) for suite, t, load in zip(*cells, strict=True)}
        self._lacking = self.planned - seen
        for number, checked in self._asked(joined, look):
            name = (number, checked.where)
            known = self._checks.get(name)
            if known is None or known.outcome is Outcome.INCONCLUSIVE:
                self._checks[name] = checked

    def _asked(self, joined: Joined, look: Look) -> Iterator[tuple[int, Checked]]:
        for number, check in enumerate(self.rules.check):
            for group, places in groups(joined, check.by):
                if group.name != SOUND:
                    checked = decide_at(check, joined, places, place(group), look, self.rules.alpha)
                    yield number, checked

    @property
    def checks(self) -> tuple[Checked, ...]:
        """As they stand; cells of which nothing is known are not decided."""
        lacking = [
            Checked(
                COVERAGE,
                f"T={temperature:g}, load {concurrency}, {suite}",
                Outcome.INCONCLUSIVE,
                "none of these requests was measured in the time there was",
            )
            for suite, temperature, concurrency in sorted(self._lacking)
        ]
        return (*self._checks.values(), *lacking)

    @property
    def failed(self) -> bool:
        """Whether a check has failed, and so the gate."""
        return any(check.outcome is Outcome.FAIL for check in self.checks)

    @property
    def passed(self) -> bool:
        """Whether all checks have passed, and everything planned is among them."""
        return all(check.outcome is Outcome.PASS for check in self.checks)
