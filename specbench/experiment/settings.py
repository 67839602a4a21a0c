"""What an engine is told of an experiment when it is opened."""

from __future__ import annotations

from specbench.experiment.schema import Experiment

PER_ARM = {"url", "plain_url", "metrics_urls", "plain_metrics_urls"}
PER_ARM |= {"python", "env", "command", "args_extra"}
"""Keys of the [server] table that reach an engine through its arms."""


def engine_settings(experiment: Experiment) -> dict[str, object]:
    """The [target] table, and what of the workload an engine needs before the first request."""
    target, workload = experiment.target.model_dump(), experiment.workload
    settings = {
        **experiment.target.options,
        **target,
        "system_policy": workload.system_policy,
        "seed": workload.seed,
        "concurrency": max(workload.concurrency),
        "max_new_tokens": workload.max_new_tokens,
        "arrival": {"kind": workload.arrival, "rate": workload.rate},
    }
    if experiment.on_server:
        settings["server"] = experiment.server.model_dump(exclude=PER_ARM)
    return settings
