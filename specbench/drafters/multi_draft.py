"""Several small models draft side by side; what they propose is one tree.

Source: Miao et al. 2305.09781 (SpecInfer), section 3. Every model drafts a chain of its own; what
becomes of them is in ``drafters/merged.py``.
Shapes: V target vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from specbench.core.trace import ShortDraft
from specbench.decoding.kernels.protocol import Kernels
from specbench.decoding.kernels.with_torch import TORCH
from specbench.decoding.protocols import Acceptance, Draft, DrafterInfo, DraftFacts, Tap
from specbench.decoding.sequence import Sequence as DecodedSequence
from specbench.drafters.accepted import accepted_of
from specbench.drafters.build import BuildContext, choice
from specbench.drafters.chain import no_draft
from specbench.drafters.draft_rows import DraftRows
from specbench.drafters.grow.chain import Chain
from specbench.drafters.merged import merged_draft
from specbench.drafters.prefix_model import PrefixModel
from specbench.drafters.reach import short_of
from specbench.errors import UsageError
from specbench.models.quant.settings import QUANT_OPTIONS
from specbench.models.target import PackedForward

MOST_MODELS = 8
INFO = DrafterInfo(
    name="multi_draft",
    summary="several smaller causal LMs draft chains that are merged into one tree",
    source="Miao et al. 2024, 2305.09781 (SpecInfer)",
    default=DraftFacts("dense", "independent", tree=True),
    kv="own",
    options={
        "models": f"the draft models, 2 to {MOST_MODELS}: hub ids, folders, .gguf files or demo "
        "names, tried in this order (required)",
        "dtype": "data type of the drafts (that of the target)",
        "sampling": "sampled: draw from the processed rows; greedy: take the argmax (sampled)",
        **QUANT_OPTIONS,
    },
    variants=(({"sampling": "greedy"}, DraftFacts("one_hot", "deterministic_set", tree=True)),),
)


class MultiDraftDrafter:
    """Merged chains of several models.

    Args:
        models: packed drafts in the order of their trials; their owners must exist in the pool.
        vocabulary: V.
        contexts: positions each draft knows; behind them it leaves drafting to the others.
        sampled: whether drafts are drawn or taken as argmax.
    """

    info = INFO
    taps: tuple[Tap, ...] = ()
    vocabulary: frozenset[int] | None = None

    def __init__(
        self,
        models: Sequence[PackedForward],
        vocabulary: int,
        contexts: Sequence[int],
        sampled: bool = True,
        kernels: Kernels = TORCH,
    ) -> None:
        self._models = [PrefixModel(m, n) for m, n in zip(models, contexts, strict=True)]
        rows_of = DraftRows(vocabulary, kernels=kernels)
        self._chains = [Chain(rows_of, sampled, i, len(models)) for i in range(len(models))]

    @classmethod
    def build(cls, options: dict[str, object], context: BuildContext) -> MultiDraftDrafter:
        """From an arm's options, see ``INFO``; loads the drafts."""
        sampled = choice(options, "sampling", ("sampled", "greedy"), context.arm) == "sampled"
        made = [
            context.own_model({**options, "model": name}, f":{i}")
            for i, name in enumerate(_names(options.get("models"), context.arm))
        ]
        limits = [loaded.context_limit for _, loaded in made]
        return cls(
            [model for model, _ in made], context.vocabulary, limits, sampled, context.kernels
        )

    def room(self, k: int) -> int:
        """Nodes of chains that have nothing in common."""
        return k * len(self._models)

    def nodes(self, k: int) -> int:
        """The same: what is drafted is verified."""
        return self.room(k)

    def feeds(self, k: int) -> int:
        """The refill of a model that drafted nothing of the accepted path, and the token behind."""
        return k + 1

    def admit(self, rows: Sequence[DecodedSequence], taps: Mapping[Tap, Tensor]) -> None:
        """Prefill every draft with prompt and first token."""
        for model in self._models:
            model.admit(rows)

    def propose(self, rows: Sequence[DecodedSequence], budget: Sequence[int]) -> Draft:
        """Chains from the carried logits of every draft on, merged."""
        rooms = [model.begin(rows, budget) for model in self._models]
        reach = [max(room) for room in zip(*rooms, strict=True)]
        short = short_of(reach, budget, ShortDraft.DRAFT_CONTEXT)
        drafts = [
            chain.grow(rows, room, model.first(rows), model.advance(rows), short)
            for model, chain, room in zip(self._models, self._chains, rooms, strict=True)
            if any(room)
        ]
        device = self._models[0].device
        return merged_draft(drafts, short, device) if drafts else no_draft(short, device)

    def observe(
        self,
        rows: Sequence[DecodedSequence],
        draft: Draft,
        verified: Tensor,
        acceptance: Acceptance,
        taps: Mapping[Tap, Tensor],
    ) -> None:
        """Every draft keeps what its own chain has in common with the accepted path."""
        accepted = accepted_of(draft, acceptance)
        for model in self._models:
            model.observe(rows, accepted)

    def release(self, rows: Sequence[DecodedSequence]) -> None:
        """Drop carried logits; the slab itself belongs to the target."""
        for model in self._models:
            model.release(rows)


def _names(value: object, arm: str) -> list[str]:
    """The models that an arm asks for."""
    listed = value if isinstance(value, Sequence) and not isinstance(value, str) else []
    names = [name for name in listed if isinstance(name, str)]
    if not 2 <= len(names) <= MOST_MODELS or len(names) != len(listed):
        raise UsageError(
            f"arm {arm}: models = {value!r}, but multi_draft takes 2 to {MOST_MODELS} model names",
            f'set arm.{arm}.options.models = ["NAME", "NAME"]; draft_model takes one',
        )
    return names
