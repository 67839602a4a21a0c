"""Checks of the catalogue's rules, chosen by their declared facts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

import torch

from specbench.catalog import resolve
from specbench.decoding.protocols import Lossless, Rule
from specbench.decoding.sampling import one_hot
from specbench.errors import PrerequisiteError
from specbench.laws.drawn_trees import TreeTable
from specbench.laws.exact import (
    Expectation,
    compared,
    exact_outcomes,
    law_outcomes,
)
from specbench.laws.outcome import Finding, Outcome, Status, guarded
from specbench.laws.rules import DrawnRule, RuleSampler, target_rows
from specbench.laws.sampled import generator_outcomes
from specbench.laws.tables import ARGMAX, SAMPLED, LawTable
from specbench.laws.trees import TREES, beyond_best, tree_law
from specbench.models.kernel_library import require_library

ZERO_TABLES = (*SAMPLED[:2], ARGMAX[1])
ARGMAX_MATCH = "argmax match"
"""``RuleInfo.temperature_zero`` of rules that are exact there, whatever they are above."""


def rule_outcomes(name: str, samples: int, seed: int = 0) -> Iterator[Outcome]:
    """Every check that the facts of the catalogue's rule ``name`` allow.

    A lossy rule is checked against its declared law, and as a lossless one at the parameters that
    make it exact. A library's kernels draw their own numbers; they are tested where they run.

    Args:
        samples: rounds per table where a rule draws its own numbers.
    """
    rule = cast(Rule, resolve("rules", name))
    info = rule.info
    if info.lossless is Lossless.MEANINGLESS:
        detail = "acceptance is made up for timing: the output has no law"
        yield Outcome(name, "law", "any", Status.NOT_APPLICABLE, detail)
    elif info.library:
        yield from _kernels(name, rule.configure({}), samples, seed)
    elif info.lossless is Lossless.LOSSY:
        yield from _lossy(name, rule.configure({}), seed)
        if info.exact_at:
            values = ", ".join(f"{key}={value:g}" for key, value in info.exact_at.items())
            yield from _lossless(f"{name} ({values})", rule.configure(info.exact_at), seed)
    else:
        yield from _lossless(name, rule.configure({}), seed)


def _kernels(name: str, rule: Rule, samples: int, seed: int) -> Iterator[Outcome]:
    yield from _zero(name, rule)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        require_library(rule.info.library, str(device), f"rule {name}", "check another rule")
    except PrerequisiteError as error:
        yield Outcome(name, "law", "any", Status.NOT_APPLICABLE, error.message)
    else:
        yield from generator_outcomes(name, DrawnRule(rule, device), samples, seed)


def _lossless(name: str, rule: Rule, seed: int) -> Iterator[Outcome]:
    if rule.info.sampled:
        yield from exact_outcomes(name, RuleSampler(rule), seed)
    yield from tree_outcomes(name, rule, TREES if rule.info.sampled else ())
    yield from _zero(name, rule)


def _lossy(name: str, rule: Rule, seed: int) -> Iterator[Outcome]:
    if declared_law(rule, SAMPLED[0]) is None:
        detail = "lossy, and its law is not declared"
        yield Outcome(name, "law", "any", Status.NOT_APPLICABLE, detail)
    else:
        yield from exact_outcomes(name, RuleSampler(rule), seed, partial(_declared, rule))
    if rule.info.temperature_zero == ARGMAX_MATCH:
        yield from _zero(name, rule)


def declared_law(rule: Rule, table: LawTable) -> Expectation | None:
    """What the rule itself says of its output; None where it says nothing."""
    rows = target_rows(table.target, torch.arange(table.size)[:, None], 1.0)
    places = torch.arange(table.size)
    states = [rule.admit([token]) for token in range(table.size)]
    drafted = rule.output_law(rows, places, table.draft, states)
    behind = rule.output_law(rows, places, None, states)
    if drafted is None or behind is None:
        return None
    return Expectation(drafted, behind, False)


def _declared(rule: Rule, table: LawTable) -> Expectation:
    found = declared_law(rule, table)
    assert found is not None, "asked before"
    return found


def _zero(name: str, rule: Rule) -> Iterator[Outcome]:
    """Temperature 0: chains and trees emit the target's argmax, the lowest id on ties."""
    sampler = RuleSampler(rule, temperature=0.0)
    for table in ZERO_TABLES:
        cold = replace(table, name=f"temperature 0, {table.name}")
        yield from law_outcomes(name, sampler, _argmax, [cold])
    yield from tree_outcomes(
        name, rule, [replace(t, name=f"temperature 0, {t.name}", temperature=0.0) for t in TREES]
    )


def _argmax(table: LawTable) -> Expectation:
    best = one_hot(table.target)
    return Expectation(best, best, True)


def tree_outcomes(name: str, rule: Rule, tables: Sequence[TreeTable]) -> Iterator[Outcome]:
    """The law of three rounds on trees, with every kind of children that the rule takes."""
    kinds = rule.info.trials
    for table in tables if rule.info.tree else ():
        if not kinds or table.kind.name.lower() in kinds:
            yield guarded(name, "law", table.name, partial(_tree, rule, table))


def _tree(rule: Rule, table: TreeTable) -> Finding:
    law = tree_law(rule, table)
    rows = one_hot(table.target) if table.temperature == 0 else table.target
    depth = len(table.shape)
    problem = beyond_best(law, table) if table.temperature else ""
    return compared(law, Expectation(rows, rows, True), depth, table.length, problem)
