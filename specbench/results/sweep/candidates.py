"""What a sweep chooses from: plain, and every arm at every K (and tree size)."""

from __future__ import annotations

from dataclasses import dataclass

from specbench.core.arm import PLAIN


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to decode.

    Attributes:
        name: of its arm in the runs of a sweep.
        arm: the experiment's arm that it is made of; ``plain`` for plain decoding.
        k: longest draft, tokens; 0 for plain.
        nodes: nodes of its tree; None where the arm's own options say it.
    """

    name: str
    arm: str
    k: int
    nodes: int | None = None

    @property
    def plain(self) -> bool:
        """Whether it decodes without drafting."""
        return self.name == PLAIN

    @property
    def size(self) -> tuple[int, int]:
        """What it drafts: of two equally fast ones the smaller is taken."""
        return self.k, self.nodes or 0


WITHOUT = Candidate(PLAIN, PLAIN, 0)
"""Plain decoding, a candidate of every sweep."""


def named(arm: str, k: int, nodes: int | None = None) -> Candidate:
    """The candidate of an arm at a K and a tree size."""
    tree = "" if nodes is None else f"-n{nodes}"
    return Candidate(f"{arm}-k{k}{tree}", arm, k, nodes)
