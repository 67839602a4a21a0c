"""Exact rejection sampling (Leviathan et al. 2211.17192, algorithm 1; Chen et al. 2302.01318)."""

from __future__ import annotations

from specbench.decoding.laws import DraftLaws
from specbench.decoding.protocols import Acceptance, Lossless, RuleInfo, States, Uniforms
from specbench.decoding.rows import TargetRows
from specbench.decoding.tree import TokenTree, Trials
from specbench.verify.listed import ListedRule
from specbench.verify.ratio import ratio_test

INFO = RuleInfo(
    name="rejection",
    source="Leviathan et al. 2023, 2211.17192, algorithm 1; Chen et al. 2023, 2302.01318",
    lossless=Lossless.PROVEN,
    needs="processed",
    laws=("one_hot", "dense"),
    tree=False,
    temperature_zero="argmax match",
    device_only=True,
)


def rejection(
    tree: TokenTree,
    trials: Trials,
    rows: TargetRows,
    laws: DraftLaws,
    states: States,
    uniforms: Uniforms,
) -> tuple[Acceptance, States]:
    """Accept x with probability min(1, target(x)/draft(x)); else draw from relu(target - draft)."""
    return ratio_test(tree, trials, rows, laws, uniforms, 1.0), states


RULE = ListedRule(INFO, rejection)
