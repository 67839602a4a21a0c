"""The tables name -> "module:object". Strings only, resolved late, so that listing imports nothing.

Third parties add entries through the entry-point groups ``specbench.drafters``,
``specbench.rules``, ``specbench.engines`` and ``specbench.suites``.
"""

from __future__ import annotations

import difflib
from importlib import import_module
from importlib.metadata import entry_points

from specbench.errors import UsageError

DRAFTERS = {
    "none": "specbench.drafters.none:NoDrafter",
    "ngram": "specbench.drafters.ngram:NgramDrafter",
    "suffix": "specbench.drafters.suffix:SuffixDrafter",
    "bigram": "specbench.drafters.bigram:BigramDrafter",
    "draft_model": "specbench.drafters.draft_model:DraftModelDrafter",
    "multi_draft": "specbench.drafters.multi_draft:MultiDraftDrafter",
    "layer_skip": "specbench.drafters.layer_skip:LayerSkipDrafter",
    "medusa": "specbench.drafters.medusa:MedusaDrafter",
    "blockwise": "specbench.drafters.blockwise:BlockwiseDrafter",
    "eagle1": "specbench.drafters.eagle.eagle1:Eagle1Drafter",
    "eagle2": "specbench.drafters.eagle.eagle2:Eagle2Drafter",
    "eagle3": "specbench.drafters.eagle.eagle3:Eagle3Drafter",
    "mtp": "specbench.drafters.mtp:MtpDrafter",
}

RULES = {
    "greedy": "specbench.verify.greedy:RULE",
    "rejection": "specbench.verify.rejection:RULE",
    "target_match": "specbench.verify.target_match:RULE",
    "block": "specbench.verify.block:RULE",
    "flashinfer_chain": "specbench.verify.flashinfer_chain:RULE",
    "multi_round": "specbench.verify.multi_round:RULE",
    "k_seq": "specbench.verify.k_seq:RULE",
    "traversal": "specbench.verify.traversal:RULE",
    "lenient": "specbench.verify.lenient:RULE",
    "typical": "specbench.verify.typical:RULE",
    "relaxed": "specbench.verify.relaxed:RULE",
    "threshold": "specbench.verify.threshold:RULE",
    "blockwise": "specbench.verify.blockwise:RULE",
    "synthetic": "specbench.verify.synthetic:RULE",
}

ENGINES = {
    "native": "specbench.engines.native:open_engine",
    "transformers_assisted": "specbench.engines.transformers_assisted.engine:open_engine",
    "llamacpp": "specbench.engines.http.dialects.llamacpp:open_engine",
    "vllm": "specbench.engines.http.dialects.vllm:open_engine",
    "sglang": "specbench.engines.http.dialects.sglang:open_engine",
    "trtllm": "specbench.engines.http.dialects.trtllm:open_engine",
    "openai": "specbench.engines.http.dialects.openai:open_engine",
    "scripted": "specbench.engines.scripted:open_engine",
}

SERVERS = {
    "llamacpp": "specbench.engines.servers.llamacpp:LAUNCHER",
    "vllm": "specbench.engines.servers.vllm:LAUNCHER",
    "sglang": "specbench.engines.servers.sglang:LAUNCHER",
    "trtllm": "specbench.engines.servers.trtllm:LAUNCHER",
    "openai": "",
}
"""Engines that are servers -> how one is started here; empty where it can only be attached to."""

SUITES = {
    "code": "suites/code",
    "chat": "suites/chat",
    "translation": "suites/translation",
}

TABLES = {"drafters": DRAFTERS, "rules": RULES, "engines": ENGINES, "suites": SUITES}


def names(table: str) -> list[str]:
    """Names in a table, our own first, then those of installed entry points."""
    own = list(TABLES[table])
    return own + sorted(e.name for e in entry_points(group=f"specbench.{table}"))


def nearest(word: str, known: list[str]) -> str:
    """A "did you mean" sentence for an unknown name."""
    close = difflib.get_close_matches(word, known, n=3, cutoff=0.5)
    start = f"did you mean {' or '.join(close)}? " if close else ""
    return f"{start}known: {', '.join(known)}"


def entry(table: str, name: str) -> str:
    """The "module:object" string (for suites: the folder) behind a name; UsageError if unknown."""
    if name in TABLES[table]:
        return TABLES[table][name]
    for point in entry_points(group=f"specbench.{table}"):
        if point.name == name:
            return point.value
    raise UsageError(f"unknown {table[:-1]} {name!r}", nearest(name, names(table)))


def resolve(table: str, name: str) -> object:
    """Import and return the object behind a name."""
    module, _, attribute = entry(table, name).partition(":")
    return load(module, attribute)


def load(module: str, attribute: str) -> object:
    """Import a module and return what it calls ``attribute``."""
    return getattr(import_module(module), attribute)
