"""Drafts that are to be replayed: from the command line or the arms of an experiment to specs."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, cast

from specbench.catalog import nearest
from specbench.core.arm import ArmSpec
from specbench.core.request import GREEDY_BELOW
from specbench.errors import UsageError
from specbench.experiment.arms import check_arms, default_rule, resolved
from specbench.experiment.load import Flags, load_experiment

OPTION = re.compile(r",(?=[A-Za-z_]\w*\s*=)")
"""A comma between two options; commas inside a value are followed by something else."""


class Facts(Protocol):
    """What is asked of ``decoding.protocols.DraftFacts``."""

    law: str
    trials: str
    tree: bool


@dataclass(frozen=True, slots=True)
class Drafts:
    """What is replayed.

    Attributes:
        specs: one per draft; the name is what the draft is called in tables.
        notes: what of an arm is not replayed.
    """

    specs: tuple[ArmSpec, ...]
    notes: tuple[str, ...] = ()


def named_drafts(texts: Sequence[str], arms: str | None) -> Drafts:
    """The drafts that were asked for.

    Args:
        texts: each the name of an arm in ``arms``, or a drafter of the catalogue with its options:
            ``ngram``, ``ngram:min_n=2,max_n=4``, ``draft_model:model=NAME,sampling=greedy``.
            Without any, all arms of ``arms`` are taken.
        arms: an experiment, built-in or a file; of an arm drafter and options count.

    Raises:
        UsageError: nothing asked for, the same draft twice, an unknown name or a bad option.
    """
    declared = {} if arms is None else _arms(arms)
    chosen = list(texts) or list(declared)
    if not chosen:
        raise UsageError(
            "no draft to replay", "add --draft NAME, e.g. --draft ngram, or --arms EXPERIMENT"
        )
    if twice := next((text for text in chosen if chosen.count(text) > 1), None):
        raise UsageError(f"--draft {twice} is there twice", "leave one of them out")
    specs = [declared.get(text) or _parsed(text, list(declared)) for text in chosen]
    notes = []
    for place, spec in enumerate(specs):
        rule = default_rule(spec.drafter, spec.drafter_options)
        if spec.rule != rule and spec.name in declared:
            notes.append(f"{spec.name} is scored as under {rule}, not under its rule {spec.rule}")
        specs[place] = replace(spec, rule=rule, rule_options={})
    return Drafts(tuple(specs), tuple(notes))


def _arms(source: str) -> dict[str, ArmSpec]:
    experiment = load_experiment(source, Flags()).experiment
    if experiment.engine != "native":
        raise UsageError(
            f"--arms {source}: its engine is {experiment.engine}, and a replay drives drafters in "
            "this process",
            'name an experiment with engine = "native"',
        )
    found = {arm.name: arm for arm in experiment.arms() if not arm.plain}
    if not found:
        raise UsageError(f"--arms {source}: it has no arm that drafts", "add an [arm.NAME] table")
    return found


def _parsed(text: str, arms: Sequence[str]) -> ArmSpec:
    drafter, colon, rest = text.partition(":")
    if drafter == "none":
        raise UsageError("--draft none drafts nothing", "leave it out: plain has accept length 1")
    if arms and not colon and drafter not in arms:
        # With a file at hand a bare name most likely is one of its arms.
        _require_drafter(text, arms)
    options: dict[str, object] = {}
    for part in OPTION.split(rest) if colon else ():
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not name or not value:
            raise UsageError(
                f"--draft {text}: {part!r} is not key=value",
                "write for example --draft ngram:min_n=2,max_n=4",
            )
        options[name] = _value(value)
    return ArmSpec(text, drafter, 1, drafter_options=options)


def _require_drafter(text: str, arms: Sequence[str]) -> None:
    try:
        resolved("drafters", text)
    except UsageError:
        raise UsageError(
            f"--draft {text}: neither an arm of --arms nor a drafter", nearest(text, list(arms))
        ) from None


def _value(text: str) -> object:
    """A TOML value; anything that is none is taken as text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def check_drafts(drafts: Sequence[ArmSpec], temperatures: Sequence[float]) -> None:
    """The checks of an experiment's arms, and whether chances can be told from a record.

    Raises:
        UsageError, PrerequisiteError: as ``experiment.arms.check_arms``; or candidates that are
            drawn, of which a record does not hold those that were drawn beside the emitted one.
    """
    hottest = max(temperatures)
    check_arms(drafts, temperatures, allow_lossy=True)
    if hottest < GREEDY_BELOW:
        return
    for draft in drafts:
        facts = _facts(draft.drafter, draft.drafter_options)
        if facts.law == "dense" and (facts.tree or facts.trials != "iid"):
            raise UsageError(
                f"draft {draft.name} draws several candidates ({facts.trials}): at temperature "
                f"{hottest:g} the chance that a recorded token was accepted depends on those drawn "
                "beside it; chains first",
                "add --temperature 0, or give the draft sampling=greedy or tree=chain",
            )


def _facts(drafter: str, options: Mapping[str, object]) -> Facts:
    info = resolved("drafters", drafter).info  # type: ignore[attr-defined]
    return cast(Facts, info.facts(options))
