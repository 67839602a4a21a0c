"""Keys of [target] that the engine of an experiment would not read.

A result would say that the target was shared by two processes, and it was not.
"""

from __future__ import annotations

from specbench.catalog import ENGINES, SERVERS, nearest
from specbench.errors import UsageError
from specbench.experiment.workload import Target
from specbench.models.quant.settings import quant_of

QUANTISING = ("native", "scripted")
"""Engines that load the target themselves and quantise it."""

OF_NATIVE = (
    "attention",
    "sampler",
    "tensor_parallel",
    "graphs",
    "compile",
    "schedule",
    "prepack",
)
"""Keys that the native engine alone reads."""

OPTIONS = {
    "native": ("evidence", "spans"),
    "transformers_assisted": ("spans",),
    **dict.fromkeys(SERVERS, ()),
    "scripted": (
        *("step_ms", "prefill_ms", "accepted", "length", "fail", "diverge", "margin", "context"),
    ),
}
"""Engine of ours -> its keys of [target.options]."""


def refuse_unread(target: Target, engine: str, source: str) -> None:
    """Refuse what would not be read.

    Engines of others are given the whole table and may read all of it, except that we quantise.

    Args:
        engine: as the experiment names it.
        source: of the experiment.

    Raises:
        UsageError: names the key, without the values of options, which may be secrets.
    """
    _refuse_quant(target, engine, source)
    if engine not in ENGINES:
        return
    for name in OF_NATIVE if engine != "native" else ():
        value = getattr(target, name)
        # Files of runs hold every key.
        if value != Target.model_fields[name].default:
            own = "; a server takes words of its own in server.args_extra"
            raise UsageError(
                f"{source}: target.{name} = {value!r} is for the native engine, not {engine}",
                f"remove it{own if engine in SERVERS else ''}",
            )
    for name in target.options:
        if name not in (known := OPTIONS[engine]):
            raise UsageError(
                f"{source}: target.options.{name}: engine {engine} has no such option",
                nearest(name, list(known)) if known else "remove it: this engine has none",
            )


def _refuse_quant(target: Target, engine: str, source: str) -> None:
    if quant_of(target.model_dump(), f"{source}: target").on and engine not in QUANTISING:
        raise UsageError(
            f"{source}: target.quant = {target.quant!r} with engine {engine}, which loads weights "
            "in a way of its own",
            "use the native engine; a server takes a quantised checkpoint, or words of its own in "
            "server.args_extra",
        )
