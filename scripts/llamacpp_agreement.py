"""How far llama.cpp on the quantised demo model is from the float32 weights: replay KL.

Outputs of the plain arm of a run on llama.cpp are scored twice, by a plain llama.cpp server with
the same file and by a float32 replay. Tokens were drawn from the server's law, so the mean
difference of the two log-probabilities estimates KL(server, replay). Writes
results/llamacpp_agreement.json:

    .venv/bin/python scripts/llamacpp_agreement.py results/RUN
"""

from __future__ import annotations

import json
from pathlib import Path

import click

from specbench.core.arm import PLAIN, ArmSpec
from specbench.core.request import GREEDY_BELOW
from specbench.engines.replay import Replay
from specbench.engines.scoring.reference import ServerReference
from specbench.engines.servers.llamacpp import LAUNCHER
from specbench.engines.servers.ports import free_port
from specbench.engines.servers.process import start
from specbench.engines.servers.protocol import ServerPlan
from specbench.experiment.agreement import agreement
from specbench.experiment.reference import Reference, Replayed, replay_run
from specbench.results.read import Recorded, find_run, read_run
from specbench.results.store import write_atomic

ROOT = Path(__file__).resolve().parents[1]
LISTED = 2000
"""Tokens per row that the server lists; what it leaves out is bounded."""


@click.command()
@click.argument("run")
@click.option(
    "--out", type=click.Path(path_type=Path), default=ROOT / "results/llamacpp_agreement.json"
)
def main(run: str, out: Path) -> None:
    """Score the plain outputs of RUN on both references and write what differs."""
    recorded = read_run(find_run(run, ROOT / "results"))
    recorded.traces = {r: t for r, t in recorded.traces.items() if r.arm == PLAIN}
    target = recorded.manifest.identity.target
    server = _on_server(recorded, target)
    native = Replay({"model": target, "dtype": "float32"})
    float32 = _scored(recorded, native, "float32 replay")
    found = agreement(
        [
            (server.traces[record].evidence, float32.traces[record].evidence)
            for record in server.traces
            if record in float32.traces and record.key.temperature >= GREEDY_BELOW
        ],
        from_target=True,
    )
    hits = [
        hit
        for trace in float32.traces.values()
        for hit in trace.evidence.target_top_hit
        if trace.key.temperature < GREEDY_BELOW and hit is not None
    ]
    document = {
        "run": recorded.manifest.run,
        "listed": LISTED,
        "sampled_tokens": found.tokens,
        "kl_nats": found.kl,
        "kl_error": found.kl_error,
        "mean_difference_nats": found.mean,
        "largest_difference_nats": found.largest,
        "greedy_tokens": len(hits),
        "greedy_first_choice": sum(hits),
        "left_out": {**server.counts(), **float32.counts()},
    }
    write_atomic(out, json.dumps(document, indent=1) + "\n")
    click.echo(out)


def _on_server(recorded: Recorded, target: str) -> Replayed:
    """Scored by a plain server that is started for it and keeps prefixes: one token at a time."""
    plan = ServerPlan(
        ArmSpec(PLAIN), target, free_port(), dtype="as_stored", context=4096, prefix_cache=True
    )
    with start(LAUNCHER, plan, None, 60) as running:
        settings = {"target": {"model": target}, "server": {}}
        reference = ServerReference(running.url, "llamacpp", settings, top=LISTED)
        try:
            return _scored(recorded, reference, "llama.cpp server")
        finally:
            reference.close()


def _scored(recorded: Recorded, reference: Reference, name: str) -> Replayed:
    with click.progressbar(length=100, label=name) as bar:
        return replay_run(
            recorded, reference, lambda done, of: bar.update(100 * done // of - bar.pos)
        )


if __name__ == "__main__":
    main()
