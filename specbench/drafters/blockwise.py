"""Blockwise parallel decoding: the first choices of parallel heads as one chain.

Source: Stern et al. 1811.03115, sections 3 and 4. The forward that verifies a block also yields the
hidden state that the next block is predicted from, so that a round costs one call of the target.
The paper's heads 2 .. k are the checkpoint's; its head 1 is the target's own, whose token every
step emits anyway: the paper's mean accepted block size is the accept length here. The same files
and the same drafts as ``medusa`` with ``tree="chain"``; here the paper's rule ``blockwise`` is at
home, and nothing else can be chosen.
"""

from __future__ import annotations

from specbench.decoding.protocols import CHOSEN, DrafterInfo
from specbench.drafters.build import BuildContext
from specbench.drafters.parallel import OPTIONS, ParallelDrafter, line, own_heads

INFO = DrafterInfo(
    name="blockwise",
    summary="blockwise parallel decoding: the first choices of parallel heads as one chain",
    source="Stern et al. 2018, 1811.03115",
    default=CHOSEN,
    taps="final",
    needs_model=True,
    options=OPTIONS,
)


class BlockwiseDrafter(ParallelDrafter):
    """A chain of the first choice of every head."""

    info = INFO

    @classmethod
    def build(cls, options: dict[str, object], context: BuildContext) -> BlockwiseDrafter:
        """From an arm's options, see ``INFO``; loads the heads.

        Raises:
            UsageError: a checkpoint of another family.
            PrerequisiteError: no such checkpoint, or one that does not fit the target.
        """
        heads = own_heads(options, context, 0)
        return cls.noted(heads, line(heads.count), context)
