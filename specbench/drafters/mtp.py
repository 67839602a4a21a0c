"""Multi-token prediction: a layer that was trained with the target drafts from its hidden states.

Source: DeepSeek-AI 2412.19437, section 2.2. A module takes the target's final hidden state at t and
the token at t + 1 through a norm each and one projection. Drafting more than one token uses it
again: the next slot takes the hidden state that this one left, before or after its last norm, or
the target's once more. Programs differ there, and in the order of the projection's halves. Both are
switches of the checkpoint's family that an arm may override, and both are recorded. Of several
trained modules only the first is read, and it drafts every token. With one drafted token neither
the second slot nor a forward of its own exists: the refill's logits are all that is used.
"""

from __future__ import annotations

from specbench.decoding.protocols import DrafterInfo
from specbench.drafters.build import BuildContext
from specbench.drafters.features.drafter import FeatureDrafter
from specbench.drafters.features.loaded import chosen_switches, positions_known, switched
from specbench.drafters.grow.choose import TREE_OPTIONS, growth_for, tree_facts
from specbench.models.quant.settings import QUANT_OPTIONS

TREE = "chain"
_DEFAULT, _VARIANTS = tree_facts(TREE)
SWITCHES = {
    "order": ("embedding_first", "hidden_first"),
    "recycle": ("pre_norm", "post_norm", "target"),
}
"""Options that replace a switch of the family, with their values; see ``MtpConfig``."""

INFO = DrafterInfo(
    name="mtp",
    summary="multi-token prediction: a layer trained with the target drafts from its hidden states",
    source="DeepSeek-AI 2024, 2412.19437, section 2.2",
    default=_DEFAULT,
    taps="final",
    kv="own",
    options={
        "model": "folder, hub id or zoo:NAME that holds the layer, or untrained (the target's own)",
        "revision": "revision of a hub id (none)",
        "dtype": "data type of the layer (that of the target)",
        **QUANT_OPTIONS,
        "order": f"halves of the projection's input: {' or '.join(SWITCHES['order'])} (the "
        "family's)",
        "recycle": f"hidden state of the next drafted token: {' or '.join(SWITCHES['recycle'])} "
        "(the family's)",
        **TREE_OPTIONS,
        "tree": f"{TREE_OPTIONS['tree']} ({TREE})",
    },
    variants=_VARIANTS,
)


class MtpDrafter(FeatureDrafter):
    """A multi-token prediction layer over chains or trees."""

    info = INFO

    @classmethod
    def build(cls, options: dict[str, object], context: BuildContext) -> MtpDrafter:
        """From an arm's options, see ``INFO``; loads the layer.

        Raises:
            UsageError: options that do not fit each other, or a checkpoint without such a layer.
            PrerequisiteError: tensors that are missing or do not fit the target.
        """
        growth = growth_for(options, context.draft_rows(), context.arm, TREE)
        wanted = chosen_switches(options, SWITCHES, context.arm)
        checkpoint = switched(context.checkpoint(options, ("mtp",)), wanted)
        head = context.own_head(options, checkpoint)
        context.note_growth(growth.facts())
        return cls(head, growth, positions_known(checkpoint, context))
