"""The command that writes results/coverage.json."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from .claims import claims
from .gates import EACH, NAMES, failures
from .intervals import SIZES, coverage

INTERVALS, COMPARISONS, BORDER, UNCHANGED, WRITTEN = 1000, 250, 1200, 200, 50
Say = Callable[[str], None]


def parts(seed: int, share: float) -> Mapping[str, Callable[[Say], Any]]:
    """What is simulated, by name; ``share`` of the full numbers."""

    def some(count: int) -> int:
        return max(1, round(count * share))

    return {
        "intervals": lambda say: coverage(some(INTERVALS), seed, say),
        "claims": lambda say: claims(some(COMPARISONS), seed, say),
        "gate": lambda say: failures(some(BORDER), some(UNCHANGED), some(WRITTEN), seed, say),
    }


@click.command()
@click.option("--seed", default=1, show_default=True, help="Seed of everything that is drawn.")
@click.option(
    "--share",
    type=click.FloatRange(min=0, max=1, min_open=True),
    default=1.0,
    show_default=True,
    help="Of the experiments and gates; less for a quick look.",
)
@click.option("--only", type=click.Choice(list(parts(0, 1))), help="The others stay as they are.")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("results/coverage.json"),
    show_default=True,
)
def main(seed: int, share: float, only: str | None, out: Path) -> None:
    """Simulate experiments and count: intervals that hold the truth, false claims and failures."""

    def say(text: str) -> None:
        click.echo(text, err=True)

    found: dict[str, Any] = json.loads(out.read_text("utf-8")) if only and out.is_file() else {}
    found["command"] = f"python -m scripts.simulations --seed {seed}"
    found["settings"] = {"sizes": SIZES, "suites": NAMES, "prompts_of_a_suite": EACH}
    for name, simulate in parts(seed, share).items():
        if only in (None, name):
            found[name] = simulate(say)
    out.write_text(json.dumps(found, indent=2, allow_nan=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
