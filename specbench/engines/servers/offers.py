"""Tables of what one kind of server can do, and the check of an arm against them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from specbench.catalog import nearest
from specbench.core.arm import ArmSpec
from specbench.errors import UsageError


@dataclass(frozen=True, slots=True)
class Offer:
    """One drafter or rule of a server.

    Attributes:
        options: keys that an arm may set, with what they mean.
        needs: keys that an arm must set.
        rules: for a drafter: the acceptance rules that go with it; empty = all of the server's.
    """

    options: Mapping[str, str] = field(default_factory=dict)
    needs: Sequence[str] = ()
    rules: Sequence[str] = ()


MODEL = "draft model or head: hub id, folder or zoo:NAME (required)"


def check_arm(
    server: str, arm: ArmSpec, drafters: Mapping[str, Offer], rules: Mapping[str, Offer]
) -> None:
    """UsageError where a server has no such drafter, rule or option, or not together.

    An arm with a ``server.command`` of its own is described by its names, not made from them, and
    passes.
    """
    if arm.server.get("command"):
        return
    if arm.drafter not in drafters:
        raise UsageError(
            f"arm {arm.name}: {server} has no drafter {arm.drafter!r}",
            f"{nearest(arm.drafter, list(drafters))}; or give server.command",
        )
    drafter = drafters[arm.drafter]
    _check_options(server, arm, f"drafter {arm.drafter}", arm.drafter_options, drafter)
    if arm.plain:
        return
    if arm.k < 1:
        raise UsageError(
            f"arm {arm.name}: k = {arm.k}, but {server} cannot speculate with empty drafts",
            "use k >= 1, or drafter none",
        )
    allowed = list(drafter.rules or rules)
    if arm.rule not in allowed:
        raise UsageError(
            f"arm {arm.name}: {server} has no rule {arm.rule!r} for drafter {arm.drafter}",
            f"it has {', '.join(allowed)}; or give server.command",
        )
    _check_options(server, arm, f"rule {arm.rule}", arm.rule_options, rules[arm.rule])


def judged_by(
    drafters: Mapping[str, Offer], rules: Mapping[str, Offer], drafter: str
) -> tuple[str, ...]:
    """Rules that a server applies to a drafter's drafts; any where nothing is drafted."""
    return tuple(drafters[drafter].rules or rules)


def _check_options(
    server: str, arm: ArmSpec, what: str, given: Mapping[str, object], offer: Offer
) -> None:
    for name in sorted(set(given) - set(offer.options)):
        raise UsageError(
            f"arm {arm.name}: {what} of {server} has no option {name!r}",
            nearest(name, list(offer.options) or ["(none)"]),
        )
    for name in offer.needs:
        if not given.get(name):
            raise UsageError(
                f"arm {arm.name}: {what} of {server} needs option {name!r}: {offer.options[name]}",
                f'e.g. options = {{ {name} = "..." }}',
            )


def position_rates(arm: ArmSpec) -> list[float] | None:
    """The chances of the rule ``synthetic`` by position, 1 to K, from its options ``rates`` or
    ``rate``; None where ``length`` is set.

    Raises:
        UsageError: not exactly one of the three, or not K rates.
    """
    given = [name for name in ("rates", "rate", "length") if arm.rule_options.get(name) is not None]
    if len(given) != 1:
        raise UsageError(
            f"arm {arm.name}: rule synthetic with {' and '.join(given) or 'no option'}",
            "set one of rates, rate or length",
        )
    if given == ["length"]:
        return None
    if given == ["rate"]:
        rate = float(str(arm.rule_options["rate"]))
        return [rate**place for place in range(1, arm.k + 1)]
    rates = arm.rule_options["rates"]
    if not isinstance(rates, list | tuple) or len(rates) != arm.k:
        raise UsageError(
            f"arm {arm.name}: rates = {rates!r}, but k = {arm.k}", f"give {arm.k} numbers"
        )
    return [float(rate) for rate in rates]


SYNTHETIC = Offer(
    {
        "rates": "chance per position d = 1, 2, ... that drafts 1 to d are kept",
        "rate": "chance that a draft is kept when those before it are",
        "length": "mean tokens per step, the target's own included",
    }
)
