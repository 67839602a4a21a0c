"""Draft with a smaller causal LM that keeps its own KV: a chain, a static tree or a dynamic one.

Sources: Leviathan et al. 2211.17192; Chen et al. 2302.01318; trees: Miao et al. 2305.09781, Li et
al. 2406.16858. How its KV follows the committed tokens is in ``drafters/prefix_model.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from specbench.core.trace import ShortDraft
from specbench.decoding.protocols import Acceptance, Draft, DrafterInfo, Tap
from specbench.decoding.sequence import Sequence as DecodedSequence
from specbench.drafters.accepted import accepted_of
from specbench.drafters.build import BuildContext
from specbench.drafters.chain import no_draft
from specbench.drafters.draft_rows import DraftRows
from specbench.drafters.grow.chain import Chain
from specbench.drafters.grow.choose import TREE_OPTIONS, growth_for, tree_facts
from specbench.drafters.grow.growth import Growth
from specbench.drafters.prefix_model import PrefixModel
from specbench.drafters.reach import short_of
from specbench.models.quant.settings import QUANT_OPTIONS
from specbench.models.target import PackedForward

DEFAULT, VARIANTS = tree_facts("chain")
INFO = DrafterInfo(
    name="draft_model",
    summary="a smaller causal LM with its own KV drafts token by token",
    source="Leviathan et al. 2023, 2211.17192; Chen et al. 2023, 2302.01318",
    default=DEFAULT,
    kv="own",
    needs_model=True,
    options={
        "model": "the draft model: hub id, folder, .gguf file, demo name or zoo:NAME (required)",
        "revision": "revision of a hub id (none)",
        "dtype": "data type of the draft (that of the target)",
        **TREE_OPTIONS,
        "tree": f"{TREE_OPTIONS['tree']} (chain)",
        **QUANT_OPTIONS,
    },
    variants=VARIANTS,
)


class DraftModelDrafter:
    """Drafts from a separate model.

    Args:
        model: packed draft; its owner must exist in the pool.
        vocabulary: V of the target.
        context: positions the draft knows; behind them a request decodes plainly.
        sampled: whether chains are drawn or taken as argmax.
        growth: what grows drafts instead of chains.
    """

    info = INFO
    taps: tuple[Tap, ...] = ()
    vocabulary: frozenset[int] | None = None

    def __init__(
        self,
        model: PackedForward,
        vocabulary: int,
        context: int,
        sampled: bool = True,
        growth: Growth | None = None,
    ) -> None:
        self._prefix = PrefixModel(model, context)
        self._growth = growth or Chain(DraftRows(vocabulary), sampled)

    @classmethod
    def build(cls, options: dict[str, object], context: BuildContext) -> DraftModelDrafter:
        """From an arm's options, see ``INFO``; loads the draft."""
        # What is wrong with the tree is said before the model loads.
        growth = growth_for(options, context.draft_rows(), context.arm, "chain")
        model, loaded = context.own_model(options)
        context.note_growth(growth.facts())
        return cls(model, context.vocabulary, loaded.context_limit, growth=growth)

    def room(self, k: int) -> int:
        """KV rows of the largest draft."""
        return self._growth.room(k)

    def nodes(self, k: int) -> int:
        """Nodes of the largest draft."""
        return self._growth.nodes(k)

    def feeds(self, k: int) -> int:
        """A level of the draft, or its refill: an accepted leaf and the token behind it."""
        return max(self._growth.level(k), 2)

    def admit(self, rows: Sequence[DecodedSequence], taps: Mapping[Tap, Tensor]) -> None:
        """Prefill the draft with prompt and first token."""
        self._prefix.admit(rows)

    def propose(self, rows: Sequence[DecodedSequence], budget: Sequence[int]) -> Draft:
        """Draft from the carried logits on; nothing beyond the draft's context."""
        room = self._prefix.begin(rows, budget)
        short = short_of(room, budget, ShortDraft.DRAFT_CONTEXT)
        if not any(room):
            return no_draft(short, self._prefix.device)
        first, advance = self._prefix.first(rows), self._prefix.advance(rows)
        return self._growth.grow(rows, room, first, advance, short)

    def observe(
        self,
        rows: Sequence[DecodedSequence],
        draft: Draft,
        verified: Tensor,
        acceptance: Acceptance,
        taps: Mapping[Tap, Tensor],
    ) -> None:
        """Keep the KV of accepted nodes and feed what the draft has not seen."""
        self._prefix.observe(rows, accepted_of(draft, acceptance))

    def release(self, rows: Sequence[DecodedSequence]) -> None:
        """Drop carried logits; the slab itself belongs to the target."""
        self._prefix.release(rows)
