"""What an arm on transformers' assisted generation may ask for; checked without torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from specbench.catalog import nearest
from specbench.core.arm import ArmSpec
from specbench.core.manifest import ArmFactors
from specbench.core.request import GREEDY_BELOW, Sampling
from specbench.errors import UsageError

CLAIMED = "claimed"
"""Lossless by the library's word: the rule is exact, its code here is not ours."""

SCHEDULES = {"constant": "constant", "heuristic": "heuristic_transient"}
"""Ours -> transformers'. Its ``heuristic`` carries K from one request into the next, which would
make a request depend on those before it; the transient one begins anew."""

_ADAPTIVE = {
    "schedule": "constant: K throughout; heuristic: +2 after a full accept, else -1 (constant)",
    "confidence": "end a draft at a token the draft gives less than this; 0 = never (0)",
}
OPTIONS: dict[str, dict[str, str]] = {
    "none": {},
    "ngram": {
        "min_n": "shortest suffix looked up; transformers knows only 1 (1)",
        "max_n": "longest suffix looked up, in tokens (3)",
        "occurrence": "occurrence to continue; transformers knows only first (first)",
    },
    "draft_model": {
        "model": "the draft model: hub id, folder, .gguf file or demo name (required)",
        "revision": "revision of a hub id (none)",
        "dtype": "data type of the draft (that of the target)",
        "sampling": "how the draft draws above temperature 0; only sampled (sampled)",
        "universal": "exchange text with a draft of another tokenizer (false)",
        **_ADAPTIVE,
    },
    "layer_skip": {
        "layers": "layers E to run, 1 <= E < layers of the target (a third of them)",
        "sampling": "how the draft draws above temperature 0; only sampled (sampled)",
        **_ADAPTIVE,
    },
}
RULES = ("rejection", "greedy")
"""Rules that it applies; ``greedy`` at temperature 0 alone."""

LAWS = {"ngram": "one_hot", "draft_model": "dense", "layer_skip": "dense"}


@dataclass(frozen=True, slots=True)
class DraftSettings:
    """The checked options of an arm; see ``OPTIONS`` for their meaning."""

    model: str = ""
    revision: str | None = None
    dtype: str | None = None
    max_n: int = 3
    layers: int | None = None
    universal: bool = False
    schedule: str = "constant"
    confidence: float = 0.0


def arm_factors(arm: ArmSpec, temperatures: Sequence[float]) -> ArmFactors:
    """What distinguishes an arm.

    Raises:
        UsageError: a drafter, rule or option that transformers does not offer.
    """
    draft_settings(arm)
    if arm.plain:
        return ArmFactors(arm.name, arm.drafter, 0, "none", arm.engine, lossless=CLAIMED)
    hottest = max(temperatures)
    # One-hot drafts are judged by comparing them with the target's own draw: for them that is
    # rejection sampling, in acceptance and in law.
    rules = [rule for rule in RULES if rule != "greedy" or hottest < GREEDY_BELOW]
    if arm.rule not in rules:
        raise UsageError(
            f"arm {arm.name}: transformers does not apply rule {arm.rule!r} up to temperature "
            f"{hottest:g}",
            f"use rule = {' or '.join(map(repr, rules))}, or engine = 'native'",
        )
    if arm.rule_options:
        raise UsageError(
            f"arm {arm.name}: rule {arm.rule} has no option {next(iter(arm.rule_options))!r}",
            "remove rule_options",
        )
    return ArmFactors(
        name=arm.name,
        drafter=arm.drafter,
        k=arm.k,
        rule=arm.rule,
        engine=arm.engine,
        draft_law=LAWS[arm.drafter],
        lossless=CLAIMED,
        drafter_options=arm.drafter_options,
    )


def check_conditions(samplings: Sequence[Sampling], concurrency: Sequence[int]) -> None:
    """Refuse what no arm on this engine can do.

    Raises:
        UsageError: requests side by side, or a penalty that transformers does not have.
    """
    if max(concurrency) > 1:
        raise UsageError(
            f"concurrency {max(concurrency)}: assisted generation decodes one request at a time",
            "use --concurrency 1, or engine = 'native'",
        )
    for sampling in samplings:
        if reason := unsupported(sampling):
            raise UsageError(reason, "leave it out, or use engine = 'native'")


def unsupported(sampling: Sampling) -> str:
    """Why transformers cannot sample like this; empty if it can."""
    for name in ("frequency_penalty", "presence_penalty"):
        if value := getattr(sampling, name):
            return f"{name} = {value:g}: transformers has no such penalty"
    return ""


def draft_settings(arm: ArmSpec) -> DraftSettings:
    """The options of an arm with their defaults.

    Raises:
        UsageError: an unknown drafter or option, a bad value, or a draft length that transformers
            refuses.
    """
    known = OPTIONS.get(arm.drafter)
    if known is None:
        raise UsageError(
            f"arm {arm.name}: transformers has no drafter {arm.drafter!r}",
            nearest(arm.drafter, list(OPTIONS)),
        )
    options = arm.drafter_options
    for name in options:
        if name not in known:
            raise UsageError(
                f"arm {arm.name}: drafter {arm.drafter} on transformers has no option {name!r}",
                nearest(name, list(known)) if known else "it takes none",
            )
    if arm.drafter == "ngram" and arm.k < 1:
        raise UsageError(f"arm {arm.name}: prompt lookup needs k >= 1, not {arm.k}", "set k = 5")
    return _settings(arm, options)


def _settings(arm: ArmSpec, options: Mapping[str, object]) -> DraftSettings:
    for name, only in (("min_n", 1), ("occurrence", "first"), ("sampling", "sampled")):
        if options.get(name, only) != only:
            _refuse(arm, name, f"transformers knows only {only!r}")
    model = _text(arm, "model")
    if arm.drafter == "draft_model" and not model:
        _refuse(arm, "model", 'give --draft MODEL, or options = { model = "..." }')
    universal, schedule = options.get("universal", False), options.get("schedule", "constant")
    if not isinstance(universal, bool):
        _refuse(arm, "universal", "true or false")
    if not isinstance(schedule, str) or schedule not in SCHEDULES:
        _refuse(arm, "schedule", " or ".join(map(repr, SCHEDULES)))
    return DraftSettings(
        model=model or "",
        revision=_text(arm, "revision"),
        dtype=_text(arm, "dtype"),
        max_n=_whole(arm, "max_n", 3),
        layers=_whole(arm, "layers", 1) if "layers" in options else None,
        universal=universal,
        schedule=SCHEDULES[schedule],
        confidence=_share(arm, "confidence"),
    )


def _whole(arm: ArmSpec, name: str, default: int) -> int:
    value = arm.drafter_options.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        _refuse(arm, name, f"a whole number from 1, e.g. {default}")
    return value


def _share(arm: ArmSpec, name: str) -> float:
    value = arm.drafter_options.get(name, 0.0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
        _refuse(arm, name, "a number in [0, 1)")
    return float(value)


def _text(arm: ArmSpec, name: str) -> str | None:
    value = arm.drafter_options.get(name)
    if value is not None and not isinstance(value, str):
        _refuse(arm, name, "a text, or leave it out")
    return value


def _refuse(arm: ArmSpec, name: str, instead: str) -> NoReturn:
    value = arm.drafter_options.get(name)
    shown = "is missing" if value is None else f"= {value!r}"
    raise UsageError(f"arm {arm.name}: option {name} {shown}", instead)
