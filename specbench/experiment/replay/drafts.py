"""Drafts that are to be replayed: from the command line or the arms of an experiment to specs."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
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


class Info(Protocol):
    """What is asked of ``decoding.protocols.DrafterInfo``."""

    options: Mapping[str, str]

    def facts(self, options: Mapping[str, object]) -> Facts:
        """What drafts are like under an arm's options."""
        ...


@dataclass(frozen=True, slots=True)
class Drafts:
    """What is replayed.

    Attributes:
        specs: one per draft; the name is what the draft is called in tables.
        notes: name of a draft -> what of its arm is not replayed.
        whole: whether nobody named them: they are all arms of an experiment.
        left_out: which arms of that are not scored, and why; empty for none.
    """

    specs: tuple[ArmSpec, ...]
    notes: Mapping[str, str] = field(default_factory=dict)
    whole: bool = False
    left_out: str = ""


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
    notes = {}
    for place, spec in enumerate(specs):
        rule = default_rule(spec.drafter, spec.drafter_options)
        if spec.rule != rule and spec.name in declared:
            notes[spec.name] = (
                f"{spec.name} is scored as under {rule}, not under its rule {spec.rule}"
            )
        specs[place] = replace(spec, rule=rule, rule_options={})
    return Drafts(tuple(specs), notes, whole=not texts)


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


def scorable(drafts: Drafts, temperatures: Sequence[float]) -> Drafts:
    """The drafts that a record can score, checked as an experiment's arms are.

    A draft whose candidates are drawn cannot be scored above temperature 0: a record does not hold
    those that were drawn beside the emitted one. Where all arms of an experiment are asked for, the
    others are scored and a note says what is left out.

    Raises:
        UsageError, PrerequisiteError: as ``experiment.arms.check_arms``; or a draft that was named,
            or every one, cannot be scored. All of them are listed.
    """
    check_arms(drafts.specs, temperatures, allow_lossy=True)
    refused = {} if max(temperatures) < GREEDY_BELOW else _drawn(drafts.specs)
    if not refused:
        return drafts
    kept = tuple(spec for spec in drafts.specs if spec.name not in refused)
    listed = ", ".join(f"{name} ({one.trials})" for name, one in refused.items())
    why = (
        f"at temperature {max(temperatures):g} the chance that a recorded token was accepted "
        "depends on candidates that were drawn beside it, and a record does not hold them"
    )
    way_on = _way_on(refused, min(temperatures) < GREEDY_BELOW)
    if not (drafts.whole and kept):
        raise UsageError(f"several candidates are drawn by {listed}: {why}", way_on)
    notes = {spec.name: drafts.notes[spec.name] for spec in kept if spec.name in drafts.notes}
    left_out = f"left out: {listed} draw several candidates: {why}; {way_on}"
    return replace(drafts, specs=kept, notes=notes, left_out=left_out)


@dataclass(frozen=True, slots=True)
class _Drawn:
    """A draft that draws: how, and options under which it does not draw several."""

    trials: str
    instead: tuple[str, ...]


INSTEAD = (("sampling", "greedy"), ("tree", "chain"))
"""Options under which many drafters draw at most one candidate."""


def _drawn(specs: Sequence[ArmSpec]) -> dict[str, _Drawn]:
    found = {}
    for spec in specs:
        info = cast(Info, resolved("drafters", spec.drafter).info)  # type: ignore[attr-defined]
        facts = info.facts(spec.drafter_options)
        if _several_drawn(facts):
            instead = tuple(
                f"{name}={value}"
                for name, value in INSTEAD
                if name in info.options
                and not _several_drawn(info.facts({**spec.drafter_options, name: value}))
            )
            found[spec.name] = _Drawn(facts.trials, instead)
    return found


def _several_drawn(facts: Facts) -> bool:
    return facts.law == "dense" and (facts.tree or facts.trials != "iid")


def _way_on(refused: Mapping[str, _Drawn], greedy: bool) -> str:
    ways = ["replay temperature 0 alone: --temperature 0"] if greedy else []
    ways += [
        f"give {name} {' or '.join(one.instead)}" for name, one in refused.items() if one.instead
    ]
    return ", or ".join(ways) or "leave them out"
