"""The page: summary, charts with their tables and downloads, environment; all in one file."""

from __future__ import annotations

from collections.abc import Sequence

from specbench.errors import PrerequisiteError
from specbench.report.cells import Grid, footnoted, grid, heading, loops, state
from specbench.report.limits import GRAPHS, from_graphs, limits
from specbench.report.limits import TITLE as LIMITS
from specbench.report.page.chart import Chart
from specbench.report.page.charts import CHARTS
from specbench.report.page.measured import Measured
from specbench.report.predictions import predictions
from specbench.report.prices import verdicts


def charts(run: Measured) -> list[Chart]:
    """The charts that a run has something to show in."""
    made = (maker(run) for maker in CHARTS)
    return [chart for chart in made if chart is not None]


def page(runs: Sequence[Measured]) -> str:
    """A self-contained page about some runs, below each other.

    Raises:
        PrerequisiteError: jinja2 or matplotlib is not installed.
        ResultError: files of a run that cannot be read.
    """
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise PrerequisiteError(
            "a report is written with jinja2", "type: pip install 'specbench-llm[report]'"
        ) from error
    loader = PackageLoader("specbench.report.page", "templates")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
    template = environment.get_template("report.html")
    return template.render(runs=[_shown(number, run) for number, run in enumerate(runs, 1)])


def _shown(number: int, run: Measured) -> dict[str, object]:
    summary = run.summary
    table: Grid = grid(summary)
    return {
        "anchor": f"run-{number}",
        "heading": heading(summary),
        "state": state(summary),
        "sentence": summary.sentence,
        "table": table,
        "notes": [*footnoted(table), *table.remarks],
        "warnings": summary.warnings,
        "failures": summary.failures,
        "sections": [
            (title, lines)
            for title, lines in (
                ("Is the output still the target's?", verdicts(summary)),
                ("Without looping outputs", loops(summary)),
                ("Predicted speed-up", predictions(summary)),
                (LIMITS, limits(summary)),
                (GRAPHS, from_graphs(summary)),
            )
            if lines
        ],
        "charts": charts(run),
        "environment": _environment(run),
    }


def _environment(run: Measured) -> list[tuple[str, str]]:
    """What ran where, as far as it decides the numbers."""
    manifest, identity = run.manifest, run.manifest.identity
    libraries, hardware = (_mapping(manifest.environment.get(n)) for n in ("libraries", "hardware"))
    rows = {
        "run": manifest.run,
        "created": manifest.created,
        "target": f"{identity.target} ({identity.target_revision})",
        "weights": identity.weight_hash,
        "data type": identity.dtype,
        "device": identity.device,
        "suites": ", ".join(f"{s.name} {s.version}, {s.split}: {s.items}" for s in manifest.suites),
        "sampling": ", ".join(f"T = {entry['temperature']:g}" for entry in identity.sampling),
        "longest answer": f"{identity.max_new_tokens} tokens",
        "identity": identity.digest(),
        **{str(name): str(value) for name, value in libraries.items()},
        **{str(name): str(value) for name, value in hardware.items()},
        "command": " ".join(manifest.command),
    }
    return list(rows.items())


def _mapping(value: object) -> dict[str, object]:
    return dict(value) if isinstance(value, dict) else {}
