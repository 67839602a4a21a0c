"""A /metrics page in the Prometheus text format whose counters a test moves."""

from __future__ import annotations

from collections.abc import Mapping

from tests.engines.fake_server.answer import Answer, page

Labels = tuple[tuple[str, str], ...]
CREATED = 1.77e9
"""Value of every ``_created`` series: a time stamp that must never be added to a total (C7)."""


class CounterPage:
    """Counters by name and labels. ``add`` with a name that ends in ``_total``."""

    def __init__(self, **labels: str) -> None:
        self._labels = labels
        self._values: dict[tuple[str, Labels], float] = {}

    def add(self, name: str, value: float = 1.0, **labels: str) -> None:
        """Move one series on; it exists from its first move, be it by 0."""
        key = (name, tuple(sorted({**self._labels, **labels}.items())))
        self._values[key] = self._values.get(key, 0.0) + value

    def restart(self) -> None:
        """All series back to 0, as after a restart of the server."""
        self._values = dict.fromkeys(self._values, 0.0)

    def text(self) -> str:
        """The page; every ``_total`` series has its ``_created`` twin, as client libraries do."""
        lines: list[str] = []
        for name in sorted({name for name, _ in self._values}):
            series = {labels: v for (of, labels), v in sorted(self._values.items()) if of == name}
            lines += _family(name, "counter", series)
            if name.endswith("_total"):
                created = dict.fromkeys(series, CREATED)
                lines += _family(f"{name.removesuffix('_total')}_created", "gauge", created)
        return "\n".join([*lines, ""])

    def __call__(self) -> Answer:
        """The page as an answer to GET /metrics."""
        return page(self.text())


def _family(name: str, kind: str, series: Mapping[Labels, float]) -> list[str]:
    lines = [f"# TYPE {name} {kind}"]
    for labels, value in series.items():
        inside = ",".join(f'{label}="{said}"' for label, said in labels)
        lines.append(f"{name}{f'{{{inside}}}' if inside else ''} {value}")
    return lines
