"""Traversal verification: a tree is judged from its leaves upwards, whole ways at once.

Weng et al. 2505.12398. A way that fails gives its leaf's mass back to the parent, which is judged
again as soon as none of its candidates is left. On a chain it is block verification. Candidates
may be draws without replacement, as in the paper, independent draws, or chosen without chance:
only the law of a candidate given those before it enters.
"""

from __future__ import annotations

from specbench.decoding.laws import DraftLaws
from specbench.decoding.protocols import Acceptance, Lossless, RuleInfo, States, Uniforms
from specbench.decoding.rows import TargetRows
from specbench.decoding.tree import ROOT, TokenTree, Trials
from specbench.verify.children import Candidate, Children, children
from specbench.verify.ends import End, verdict
from specbench.verify.leftover import Place, fail
from specbench.verify.listed import ListedRule

INFO = RuleInfo(
    name="traversal",
    source="Weng et al. 2025, 2505.12398",
    lossless=Lossless.PROVEN,
    needs="processed",
    laws=("one_hot", "dense"),
    tree=True,
    trials=("one_hot", "iid", "independent", "without_replacement", "deterministic_set"),
    temperature_zero="argmax match",
)


def traversal(
    tree: TokenTree,
    trials: Trials,
    rows: TargetRows,
    laws: DraftLaws,
    states: States,
    uniforms: Uniforms,
) -> tuple[Acceptance, States]:
    """Accept the way to the first leaf, in the order of the trials, with probability w(leaf).

    w(root) = 1 and w(child) = min(1, w r(x) / q(x)) with r the target and q the draft at the
    parent. A leaf that fails is taken out: with S = sum relu(w r - q) at its parent, r becomes
    norm(relu(w r - q)), q loses x, w becomes S / (S + 1 - w). A node without candidates is a leaf;
    the root is accepted for sure. The next token is drawn from r at the end of the way. The test is
    ``u < w`` with u in [0, 1) the accept number of the leaf's trial.
    """
    offers = children(tree, trials, rows, uniforms, laws)
    ways = {b: _Way(b, offer, rows) for b, offer in enumerate(offers) if not offer.greedy}
    going = list(ways.values())
    while going:
        going = [way for way in going if way.climb()]
        fail([way.place for way in going], laws, trials.kind)
    ends = {b: End(way.path, way.place.row, way.place.rejected) for b, way in ways.items()}
    return verdict(tree, rows, uniforms, ends), states


class _Way:
    """One request's way from the root to the leaf that is judged now."""

    def __init__(self, owner: int, offer: Children, rows: TargetRows) -> None:
        self._places = [Place(owner, ROOT, offer, rows)]
        self._steps: list[Candidate] = []
        self._offer = offer
        self._rows = rows

    @property
    def place(self) -> Place:
        """The end of the way."""
        return self._places[-1]

    @property
    def path(self) -> list[int]:
        """Nodes of the way."""
        return [step.node for step in self._steps]

    def climb(self) -> bool:
        """Go down to the first leaf and judge it; True if it failed and was left for its parent."""
        while (candidate := self.place.next) is not None:
            self._enter(candidate)
        if not self._steps or self._steps[-1].number < self.place.weight:
            return False
        self._places.pop()
        self._steps.pop()
        return True

    def _enter(self, candidate: Candidate) -> None:
        above = self.place
        ratio = above.ahead / above.mass * (above.draft_mass / candidate.draft)
        below = Place(
            above.owner, candidate.node, self._offer, self._rows, min(1.0, above.weight * ratio)
        )
        self._places.append(below)
        self._steps.append(candidate)


RULE = ListedRule(INFO, traversal)
