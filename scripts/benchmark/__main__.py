"""The command behind scripts/bench."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import click
import torch

from specbench.engines.native import NativeEngine, open_engine

from .against import against_transformers
from .costs import batch_scaling, evidence_shares, host_shares, verify_cost
from .drafts import draft_costs
from .process import command_line, peak_memory
from .replayed import replay_against_decoding
from .result_files import result_files
from .setting import ARMS, TARGET
from .trees import accept_shares, chain_cost, tree_over_chain

ENGINE: dict[str, Callable[[NativeEngine], dict[str, float]]] = {
    "verify_cost": verify_cost,
    "host_share": host_shares,
    "evidence_share": evidence_shares,
    "batch_scaling": batch_scaling,
}
"""Figures that need the target and the arms of ``setting``."""
DRAFTING: dict[str, Callable[[NativeEngine], dict[str, float]]] = {
    "tree_over_chain": tree_over_chain,
    "chain_cost": chain_cost,
    "accept_share": accept_shares,
    "draft_cost": draft_costs,
    "replay": replay_against_decoding,
}
"""Figures of trees and drafters; results/drafting.json."""
PARTS = ENGINE | DRAFTING


def measure(only: str | None) -> dict[str, Any]:
    """The figures of the engine, those of drafting or of result files, or a single one."""
    if only == "result_files":
        return result_files()
    engine = open_engine(TARGET, ARMS)
    threads = {"torch_threads": torch.get_num_threads()}
    if only is not None:
        chosen = DRAFTING if only == "drafting" else {only: PARTS[only]}
        return {name: part(engine) for name, part in chosen.items()} | threads
    figures = against_transformers(engine)
    figures |= {name: part(engine) for name, part in ENGINE.items()}
    figures |= command_line()
    figures["peak_memory_mb"] = peak_memory()
    return figures | threads


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@click.option(
    "--only",
    type=click.Choice([*PARTS, "drafting", "result_files"]),
    help="One figure instead of those of the engine, or all of drafting or of result files.",
)
def main(as_json: bool, only: str | None) -> None:
    """Measure and print."""
    figures = measure(only)
    if as_json:
        click.echo(json.dumps(figures, indent=2))
        return
    for name, value in figures.items():
        if isinstance(value, dict):
            cells = ", ".join(f"{k}: {v:.3g}" for k, v in value.items())
            click.echo(f"{name:24} {cells}")
        else:
            click.echo(
                f"{name:24} {value:.3g}" if isinstance(value, float) else f"{name:24} {value}"
            )


if __name__ == "__main__":
    main()
