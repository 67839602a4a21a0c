"""Fields that an experiment adds to every request, beside those of the suite.

They may add to a request and change the prompt, and never what is recorded about it: a sampling
setting in there would be in effect while the record names another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace

from specbench.core.request import Limits, Request, RequestKey, Sampling, Stops
from specbench.engines.http.protocol import Dialect, Served, Wish
from specbench.errors import UsageError

TEMPLATE_OPTIONS = "chat_template_kwargs"

_ALIASES = frozenset(
    {
        *("stream", "n", "best_of", "stop", "stop_token_ids", "messages", "prompt", "input_ids"),
        *("seed", "sampling_seed", "sampling_params", "repeat_penalty", "samplers"),
        *("max_tokens", "max_completion_tokens", "max_new_tokens", "n_predict"),
    }
)
"""What servers call settings of ours; one that a dialect does not send may still be obeyed."""

_ANY = Request(
    key=RequestKey("", "", 0, 0.0, 0),
    token_ids=(1,),
    sampling=Sampling(),
    limits=Limits(1),
    stops=Stops((1,), (".",)),
    messages=({"role": "user", "content": "."},),
)


def refuse_overrides(dialect: Dialect, routes: Sequence[str], extra: Mapping[str, object]) -> None:
    """Check that extra fields overwrite nothing that requests say already.

    Args:
        routes: that can be used.

    Raises:
        UsageError: one is a field that every request has, or another name of one.
    """
    taken = {field.name for field in fields(Sampling)} | _ALIASES
    for route in routes:
        taken |= dialect.post(_ANY, Served("http://localhost"), Wish(route, cache=False))[1].keys()
    if wrong := sorted(taken & extra.keys()):
        raise UsageError(
            f"[server] extra_body sets {', '.join(wrong)}, which every request sets by itself",
            "leave it out there; sampling, seed and lengths are set in [workload]",
        )


def refuse_settings(dialect: Dialect, samplings: Sequence[Sampling]) -> None:
    """Check that the server can be asked for these sampling settings by one of its routes.

    Raises:
        UsageError: a setting has no equal there; the route that is best liked says which.
    """
    for sampling in samplings:
        refusals = []
        for route in dialect.routes:
            try:
                dialect.post(
                    replace(_ANY, sampling=sampling),
                    Served("http://localhost"),
                    Wish(route, cache=False),
                )
            except UsageError as error:
                refusals.append(error)
        if len(refusals) == len(dialect.routes):
            raise refusals[0]


def with_template_options(
    passed_on: Mapping[str, object], extra: Mapping[str, object]
) -> Mapping[str, object]:
    """Fields of a prompt with the experiment's template options; the prompt's own go first.

    Args:
        passed_on: fields of the suite.
        extra: ``[server] extra_body``.
    """
    wider, own = extra.get(TEMPLATE_OPTIONS), passed_on.get(TEMPLATE_OPTIONS)
    if not wider:
        return passed_on
    if isinstance(wider, Mapping) and isinstance(own, Mapping):
        wider = {**wider, **own}
    elif own is not None:
        wider = own
    return {**passed_on, TEMPLATE_OPTIONS: wider}


def extended(
    passed_on: Mapping[str, object], extra: Mapping[str, object], route: str
) -> dict[str, object]:
    """All fields to add to a request; those of the prompt go first.

    On routes without messages the prompt is rendered here: template options have had their say.
    """
    if route == "chat":
        return {**extra, **with_template_options(passed_on, extra)}
    rest = {name: value for name, value in extra.items() if name != TEMPLATE_OPTIONS}
    return {**rest, **passed_on}
