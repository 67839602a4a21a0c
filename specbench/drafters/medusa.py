"""Medusa: parallel heads on the target's final hidden state draft a static tree.

Source: Cai et al. 2401.10774. Candidates are the heads' best tokens by rank, a set chosen without
chance: ``multi_round`` and ``traversal`` judge it losslessly at any temperature, ``typical`` is the
paper's own lossy rule. The root of the paper's tree is the token that the target has given already,
so a node of depth d is a guess of head d - 1. With ``tree="chain"`` the first choice of each head
is drafted.
"""

from __future__ import annotations

from specbench.decoding.protocols import CHOSEN, DrafterInfo
from specbench.decoding.shapes.parse import parse_shape
from specbench.drafters.build import BuildContext
from specbench.drafters.grow.choose import CHOSEN_TREE
from specbench.drafters.parallel import OPTIONS, ParallelDrafter, line, own_heads
from specbench.errors import UsageError

TREE = "medusa_63"

INFO = DrafterInfo(
    name="medusa",
    summary="Medusa: parallel heads on the target's final hidden state draft a static tree",
    source="Cai et al. 2024, 2401.10774",
    default=CHOSEN_TREE,
    taps="final",
    needs_model=True,
    options={
        **OPTIONS,
        "tree": "chain, or a static shape: a name, 4x3x2, best_first:N:FILE, optimal:N:FILE or a "
        f"list of rank paths ({TREE})",
    },
    variants=(({"tree": "chain"}, CHOSEN),),
)


class MedusaDrafter(ParallelDrafter):
    """Medusa's heads on a static tree, or on a chain."""

    info = INFO

    @classmethod
    def build(cls, options: dict[str, object], context: BuildContext) -> MedusaDrafter:
        """From an arm's options, see ``INFO``; loads the heads.

        Raises:
            UsageError: a tree that is unknown or dynamic, or a checkpoint of another family.
            PrerequisiteError: no such checkpoint, or one that does not fit the target.
        """
        tree = options.get("tree", TREE)
        if tree == "dynamic":
            raise UsageError(
                f"arm {context.arm}: tree = 'dynamic' with medusa, whose heads say the same "
                "whatever the path: nothing is learnt by looking again",
                "use a static shape, e.g. 'best_first:63:FILE' with measured accuracies",
            )
        shape = None if tree == "chain" else parse_shape(tree, f"arm {context.arm}")
        heads = own_heads(options, context, shape.depth if shape else 0)
        return cls.noted(heads, shape or line(heads.count), context)
