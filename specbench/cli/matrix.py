"""`specbench list matrix`: which acceptance rules judge which drafter's drafts, on which engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from specbench import catalog
from specbench.cli.rows import Rows
from specbench.engines.transformers_assisted.arms import OPTIONS as ASSISTED
from specbench.engines.transformers_assisted.arms import RULES as ASSISTED_RULES
from specbench.experiment.combine import refusal
from specbench.experiment.server_arms import launcher_of

Infos = Callable[[str], dict[str, Any]]
"""Table of the catalogue -> name -> declared ``info``, or a sentence where there is none."""

NOT_OFFERED = "no: not offered"
FOR_TESTS = {"scripted"}
"""Engines that people have no use for."""


def matrix(infos: Infos) -> Rows:
    """A row per drafter and engine that runs it, with an answer per rule.

    Servers have drafters that do not run natively; they come last. What an attached server runs is
    for it to say, so ``openai`` has no rows.
    """
    rules, own = infos("rules"), infos("drafters")
    rows: list[dict[str, object]] = []
    for name in dict.fromkeys([*own, *_served()]):
        if name in own:
            answers = {rule: fit(own[name], judge) for rule, judge in rules.items()}
            rows.append({"drafter": name, "engine": "native", **answers})
        for engine in catalog.names("engines"):
            offered = _offered(engine, name)
            if offered:
                answers = {rule: "yes" if rule in offered else NOT_OFFERED for rule in rules}
                rows.append({"drafter": name, "engine": engine, **answers})
    return rows


def _served() -> list[str]:
    """Drafters of all servers that can be started."""
    launchers = [launcher_of(engine) for engine in catalog.SERVERS]
    return [name for launcher in launchers if launcher for name in launcher.drafters]


def _offered(engine: str, drafter: str) -> tuple[str, ...]:
    """Rules by which an engine with drafters of its own judges one; none where it has it not."""
    if engine == "transformers_assisted":
        return tuple(ASSISTED_RULES) if drafter in ASSISTED else ()
    if engine not in catalog.SERVERS:
        return ()
    launcher = launcher_of(engine)
    if launcher is None or drafter not in launcher.drafters:
        return ()
    return tuple(launcher.judged_by(drafter))


def fit(drafter: Any, rule: Any) -> str:
    """Whether two declared ``info`` combine.

    Returns:
        ``yes``, ``with OPTION=VALUE``, or ``no: reason``; with ``cuda:`` in front where the rule
        runs on CUDA devices alone.
    """
    broken = next((info for info in (drafter, rule) if isinstance(info, str)), "")
    if broken:
        return broken
    # Without drafts no rule runs.
    where = "cuda: " if rule.library and drafter.default.law != "none" else ""
    reason = refusal(drafter.default, rule)
    if not reason:
        return f"{where}yes"
    for options, drafts in drafter.variants:
        if not refusal(drafts, rule):
            return f"{where}with " + ", ".join(f"{n}={value}" for n, value in options.items())
    return f"no: {reason}"


SHORT = {"yes": "yes", "with": "opt", "no:": "-", "cuda:": "cuda"}
LEGEND = (
    "yes: judged as the drafter drafts by default; opt: with options that --format md names; "
    "cuda: as yes or opt, on CUDA devices alone; -: cannot be judged, --format md says why"
)


def brief(row: Mapping[str, object]) -> Mapping[str, object]:
    """A row for people: answers in one word, except that something cannot be imported."""
    return {
        name: value if name in ("drafter", "engine") else SHORT.get(str(value).split()[0], value)
        for name, value in row.items()
    }
