"""An arm: which drafter, acceptance rule and engine decode a request. Data only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

PLAIN = "plain"
"""Name of the arm without drafting; always present, every speed-up is paired with it."""


@dataclass(frozen=True, slots=True)
class ArmSpec:
    """One declared way of decoding.

    Attributes:
        name: the arm's name in tables.
        drafter: catalogue name of the drafter; ``none`` is plain decoding.
        k: longest draft in tokens; 0 with a drafter other than ``none`` is "speculation
            configured, nothing drafted", an arm of its own.
        rule: catalogue name of the acceptance rule.
        engine: catalogue name of the engine.
        drafter_options, rule_options: values for the named drafter and rule; each drafter and
            rule says which keys it takes.
        server: where the arm's server is, or how it is started; empty for engines that are none.
    """

    name: str
    drafter: str = "none"
    k: int = 0
    rule: str = "rejection"
    engine: str = "native"
    drafter_options: Mapping[str, object] = field(default_factory=dict)
    rule_options: Mapping[str, object] = field(default_factory=dict)
    server: Mapping[str, object] = field(default_factory=dict)

    @property
    def plain(self) -> bool:
        """Whether this arm decodes without drafting."""
        return self.drafter == "none"

    @property
    def started(self) -> bool:
        """Whether its server, if its engine is one, is started here and not attached to."""
        return "url" not in self.server


@dataclass(frozen=True, slots=True)
class ArmMemory:
    """What an arm holds in memory, in bytes; None where the engine cannot tell.

    ``draft_state`` is what a stateful drafter keeps from one request to the next.
    """

    target_weights: int | None = None
    draft_weights: int | None = None
    target_kv_per_token: int | None = None
    draft_kv_per_token: int | None = None
    peak: int | None = None
    draft_state: int | None = None
