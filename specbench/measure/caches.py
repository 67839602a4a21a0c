"""Requests that fill a prefix cache with the prompts that are going to be measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from specbench.core.request import Request
from specbench.core.suite import Prompt
from specbench.core.warm_up import warm_up_key
from specbench.engines.protocol import Engine
from specbench.measure.requests import Conditions, Ready, build_request


def first_turns(
    engine: Engine, conditions: Conditions, selection: Mapping[str, Sequence[Prompt]]
) -> list[Request]:
    """The first turn of every prompt, with one output token: the prompt is what is cached."""
    sampling = conditions.samplings[0]
    requests = []
    for suite, prompts in selection.items():
        for prompt in prompts:
            key = warm_up_key(suite, prompt.id, sampling.temperature)
            built = build_request(engine, conditions, prompt, key, sampling, (), 1)
            if isinstance(built, Ready):
                requests.append(built.request)
    return requests
