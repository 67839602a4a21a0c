"""Which drafters and acceptance rules combine, from what they declare."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

CHAIN_RULE = "rejection"
"""The rule of an arm that names none."""
TREE_RULE = "multi_round"
"""The same where the arm drafts trees."""


class Drafts(Protocol):
    """What is asked of ``decoding.protocols.DraftFacts``, which needs torch."""

    law: str
    trials: str
    tree: bool
    stateful: bool


class Judge(Protocol):
    """What is asked of ``decoding.protocols.RuleInfo``."""

    laws: Sequence[str]
    tree: bool
    trials: Sequence[str]


def refusal(drafts: Drafts, rule: Judge) -> str:
    """Why a rule cannot judge such drafts, in a few words; empty if it can."""
    if drafts.law == "none":
        return ""
    if drafts.law not in rule.laws:
        return f"law {drafts.law}"
    if drafts.tree and not rule.tree:
        return "tree"
    if rule.trials and drafts.trials not in rule.trials:
        return f"trials {drafts.trials}"
    return ""
