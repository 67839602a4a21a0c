"""Greedy exact match: accept a draft token iff it is the target's argmax (lowest id on ties)."""

from __future__ import annotations

from specbench.decoding.protocols import Lossless, RuleInfo
from specbench.verify.argmax import greedy
from specbench.verify.listed import ListedRule

INFO = RuleInfo(
    name="greedy",
    source="Stern et al. 2018, 1811.03115, section 3; exact match with the argmax",
    lossless=Lossless.PROVEN,
    needs="argmax",
    laws=("one_hot", "dense"),
    tree=True,
    temperature_zero="itself; refused at T > 0, where its output would be greedy",
    sampled=False,
    device_only=True,
)

RULE = ListedRule(INFO, None, greedy)
