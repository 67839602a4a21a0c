"""Greedy exact match: accept a draft token iff it is the target's argmax (lowest id on ties)."""

from __future__ import annotations

from specbench.decoding.laws import DraftLaws
from specbench.decoding.protocols import Acceptance, Lossless, RuleInfo, States, Uniforms
from specbench.decoding.rows import TargetRows
from specbench.decoding.tree import TokenTree, Trials
from specbench.verify.chain import accepted_prefix
from specbench.verify.zero import ZeroTemperatureRule

INFO = RuleInfo(
    name="greedy",
    source="Stern et al. 2018, 1811.03115, section 3; exact match with the argmax",
    lossless=Lossless.PROVEN,
    needs="argmax",
    laws=("one_hot", "dense"),
    tree=False,
    temperature_zero="itself; refused at T > 0, where its output would be greedy",
    sampled=False,
)


def greedy(
    tree: TokenTree,
    trials: Trials,
    rows: TargetRows,
    laws: DraftLaws,
    states: States,
    uniforms: Uniforms,
) -> tuple[Acceptance, States]:
    """Longest prefix equal to the argmax; the next token is the argmax after it."""
    choices = rows.argmax()
    path, count, kind = accepted_prefix(tree, tree.ids == choices[:, :-1])
    next_token = choices.gather(1, count[:, None]).squeeze(1)
    return Acceptance(path, count, next_token, kind), states


RULE = ZeroTemperatureRule(INFO, greedy)
