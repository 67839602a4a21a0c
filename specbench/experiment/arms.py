"""Checks arms against what drafters, rules and engines declare, before any model loads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, cast

from specbench import catalog
from specbench.core.arm import ArmSpec
from specbench.core.manifest import UNKNOWN, ArmFactors
from specbench.core.request import GREEDY_BELOW
from specbench.errors import PrerequisiteError, UsageError
from specbench.experiment.combine import CHAIN_RULE, TREE_RULE, Drafts, Judge, refusal
from specbench.experiment.server_arms import server_factors
from specbench.models.kernel_library import require_library


class DrafterFacts(Protocol):
    """What a drafter's ``info`` declares."""

    needs_model: bool
    kv: str
    options: Mapping[str, str]

    def facts(self, options: Mapping[str, object]) -> Drafts:
        """What drafts are like under an arm's options."""
        ...


class RuleFacts(Judge, Protocol):
    """What a rule's ``info`` declares."""

    sampled: bool
    library: str

    def lossless_with(self, options: Mapping[str, object]) -> str:
        """What is known of the output law under an arm's parameters."""
        ...


class RuleObject(Protocol):
    """What is asked of a rule before anything loads."""

    @property
    def info(self) -> RuleFacts:
        """Declared facts."""
        ...

    def configure(self, options: Mapping[str, object], k: int | None = None) -> object:
        """The rule with parameters; UsageError for unknown names and bad values."""
        ...


LOSSY = ("lossy", "meaningless")
"""States of a rule whose speed-up is not the target's."""


RULE_MEMBERS = ("info", "configure", "admit", "output_law", "__call__")


def check_arms(
    arms: Sequence[ArmSpec],
    temperatures: Sequence[float],
    allow_lossy: bool = False,
    device: str = "cpu",
) -> tuple[ArmFactors, ...]:
    """The factors of all arms.

    Args:
        allow_lossy: whether arms of lossy rules may stand beside lossless ones.
        device: where arms of the native engine run, as torch names it.

    Raises:
        UsageError: unknown name or option, a drafter and a rule that do not combine, a rule
            that does not judge one of the temperatures, or a lossy rule nobody asked for.
        PrerequisiteError: a package that a drafter or rule needs is missing, or a rule's kernels
            do not run on the device.
    """
    factors = tuple(_arm_factors(arm, temperatures, device) for arm in arms)
    if not allow_lossy:
        _refuse_lossy(factors)
    return factors


def _arm_factors(arm: ArmSpec, temperatures: Sequence[float], device: str) -> ArmFactors:
    catalog.entry("engines", arm.engine)
    if arm.engine in catalog.SERVERS:
        return server_factors(arm)
    own = getattr(resolved("engines", arm.engine), "factors", None)
    if own is not None:
        # An engine with drafters and rules of its own says itself what combines.
        return cast(ArmFactors, own(arm, temperatures))
    catalog.entry("drafters", arm.drafter)
    catalog.entry("rules", arm.rule)
    return _factors(arm, max(temperatures), device)


def _refuse_lossy(arms: Sequence[ArmFactors]) -> None:
    """A lossy speed-up beside a lossless one reads as if both were the same thing."""
    lossy = next((arm for arm in arms if arm.lossless in LOSSY), None)
    exact = [arm for arm in arms if arm.lossless not in LOSSY]
    if lossy is None or not exact:
        return
    # An arm that drafts names the difference better than plain decoding does.
    other = next((arm for arm in exact if arm.rule != "none"), exact[0])
    rule = "plain decoding" if other.rule == "none" else f"rule {other.rule}"
    raise UsageError(
        f"arm {lossy.name} (rule {lossy.rule}: {lossy.lossless}) would be compared with arm "
        f"{other.name} ({rule}: {other.lossless})",
        "add --allow-lossy, or allow_lossy = true at the top of the experiment; the table then "
        "marks the arm and shows what its output law costs",
    )


def _factors(arm: ArmSpec, hottest: float, device: str) -> ArmFactors:
    drafter = cast(DrafterFacts, resolved("drafters", arm.drafter).info)  # type: ignore[attr-defined]
    if arm.plain:
        return ArmFactors(arm.name, arm.drafter, 0, "none", arm.engine, lossless="proven")
    listed = cast(RuleObject, resolved("rules", arm.rule))
    missing = [name for name in RULE_MEMBERS if not hasattr(listed, name)]
    if missing:
        raise UsageError(
            f"arm {arm.name}: rule {arm.rule} ({catalog.entry('rules', arm.rule)}) lacks "
            f"{', '.join(missing)}",
            "docs/adding.md lists the members of a rule; verify.listed.ListedRule has them all",
        )
    rule = listed.info
    listed.configure(arm.rule_options, arm.k)
    where = f"arm {arm.name}"
    _known_options(f"{where}: drafter {arm.drafter}", arm.drafter_options, drafter.options)
    if "models" in drafter.options and not isinstance(arm.drafter_options.get("models"), list):
        raise UsageError(
            f"{where}: drafter {arm.drafter} needs draft models",
            'give options = { models = ["...", "..."] }',
        )
    if drafter.needs_model and not isinstance(arm.drafter_options.get("model"), str):
        raise UsageError(
            f"{where}: drafter {arm.drafter} needs a draft model",
            'give --draft MODEL, or options = { model = "..." }',
        )
    drafts = drafter.facts(arm.drafter_options)
    _refuse_mismatch(where, arm, drafts, rule)
    if hottest >= GREEDY_BELOW and not rule.sampled:
        raise UsageError(
            f"{where}: rule {arm.rule} judges temperature 0 only, but the run has {hottest:g}",
            "use rule = 'rejection' or 'target_match', or temperatures = [0.0]",
        )
    if rule.library:
        require_library(rule.library, device, f"{where}: rule {arm.rule}", "use rule = 'rejection'")
    return ArmFactors(
        name=arm.name,
        drafter=arm.drafter,
        k=arm.k,
        rule=arm.rule,
        engine=arm.engine,
        tree="tree" if drafts.tree else "chain",
        draft_law=drafts.law,
        stateful=drafts.stateful,
        lossless=str(rule.lossless_with(arm.rule_options)) or UNKNOWN,
        drafter_options=arm.drafter_options,
        rule_options=arm.rule_options,
    )


def _refuse_mismatch(where: str, arm: ArmSpec, drafts: Drafts, rule: Judge) -> None:
    broken = refusal(drafts, rule)
    if not broken:
        return
    what = {
        "law": f"it takes drafts of law {' or '.join(rule.laws)}, not {drafts.law}",
        "tree": "it judges chains, and these drafts are trees",
        "trials": f"its candidates must be {' or '.join(rule.trials)}, and these are "
        f"{drafts.trials}",
    }[broken.partition(" ")[0]]
    other = TREE_RULE if drafts.tree or drafts.trials == "independent" else CHAIN_RULE
    raise UsageError(
        f"{where}: rule {arm.rule} cannot judge drafter {arm.drafter}: {what}",
        f"use rule = {other!r}; `specbench list matrix` shows what combines",
    )


def default_rule(drafter: str, options: Mapping[str, object]) -> str:
    """The rule of an arm in this process that names none: one that judges its drafts.

    A drafter that is unknown or cannot be imported is reported elsewhere.
    """
    try:
        info = cast(DrafterFacts, resolved("drafters", drafter).info)  # type: ignore[attr-defined]
    except (UsageError, PrerequisiteError):
        return CHAIN_RULE
    drafts = info.facts(options)
    return TREE_RULE if drafts.tree or drafts.trials == "independent" else CHAIN_RULE


def resolved(table: str, name: str) -> object:
    """The object behind a name of the catalogue; PrerequisiteError names a missing package."""
    try:
        return catalog.resolve(table, name)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package == "specbench":
            raise
        raise PrerequisiteError(
            f"{table[:-1]} {name!r} needs the package {package!r}",
            "pip install 'specbench-llm[native]'",
        ) from error


def _known_options(where: str, given: Iterable[str], known: Mapping[str, str]) -> None:
    for name in given:
        if name not in known:
            hint = catalog.nearest(name, list(known)) if known else "it takes none"
            raise UsageError(f"{where} has no option {name!r}", hint)
