"""Several candidates per node, tried one after the other against what the target has left.

Independent draws: multi-step speculative sampling of SpecInfer (Miao et al. 2305.09781, section
4.3), which visits children in random order; here they come in the order of their trials, which is
the same for independent draws from one law, and exact for any order that was fixed before the
tokens were drawn. Draws without replacement: recursive rejection sampling (Jeon et al. 2402.14160;
EAGLE, Sequoia). Candidates chosen without chance: each has a one-hot law. On a chain all three are
rejection sampling.
"""

from __future__ import annotations

from specbench.decoding.laws import DraftLaws
from specbench.decoding.protocols import Acceptance, Lossless, RuleInfo, States, Uniforms
from specbench.decoding.rows import TargetRows
from specbench.decoding.tree import ROOT, TokenTree, Trials
from specbench.verify.children import Children, children
from specbench.verify.ends import End, verdict
from specbench.verify.leftover import Place, fail
from specbench.verify.listed import ListedRule

INFO = RuleInfo(
    name="multi_round",
    source="Miao et al. 2024, 2305.09781, section 4.3 (SpecInfer); Jeon et al. 2024, 2402.14160",
    lossless=Lossless.PROVEN,
    needs="processed",
    laws=("one_hot", "dense"),
    tree=True,
    trials=("one_hot", "iid", "independent", "without_replacement", "deterministic_set"),
    temperature_zero="argmax match",
)


def multi_round(
    tree: TokenTree,
    trials: Trials,
    rows: TargetRows,
    laws: DraftLaws,
    states: States,
    uniforms: Uniforms,
) -> tuple[Acceptance, States]:
    """Accept x with probability min(1, r(x) / q(x)), else r becomes norm(relu(r - q)).

    At every node r starts as the target. q is the law of the candidate given those before it: the
    draft law, without replacement renormalised over the tokens not tried, or one-hot at x. An
    accepted candidate is descended to; when none is left, the next token is drawn from r. The test
    is ``u * q < r`` with u in [0, 1), so a token of target probability 0 is never accepted. A
    candidate that q cannot have given is rejected and leaves r as it is, and so is r where rounding
    leaves nothing.
    """
    offers = children(tree, trials, rows, uniforms, laws)
    ways = {b: _Way(b, offer, rows) for b, offer in enumerate(offers) if not offer.greedy}
    going = list(ways.values())
    while going:
        going = [way for way in going if way.descend()]
        fail([way.place for way in going], laws, trials.kind)
    ends = {b: End(way.path, way.place.row, way.place.rejected) for b, way in ways.items()}
    return verdict(tree, rows, uniforms, ends), states


class _Way:
    """One request's accepted nodes and the place behind them."""

    def __init__(self, owner: int, offer: Children, rows: TargetRows) -> None:
        self.path: list[int] = []
        self.place = Place(owner, ROOT, offer, rows)
        self._offer = offer
        self._rows = rows

    def descend(self) -> bool:
        """Accept candidates until one fails (True) or there is none left to try (False)."""
        while (candidate := self.place.next) is not None:
            chance = self.place.ahead * self.place.draft_mass
            if candidate.number * candidate.draft * self.place.mass >= chance:
                return True
            self.path.append(candidate.node)
            self.place = Place(self.place.owner, candidate.node, self._offer, self._rows)
        return False


RULE = ListedRule(INFO, multi_round)
