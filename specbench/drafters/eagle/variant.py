"""What the three EAGLEs share: each is a head and the tree that it drafts unless told otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self

from specbench.decoding.protocols import DrafterInfo
from specbench.drafters.build import BuildContext
from specbench.drafters.features.drafter import FeatureDrafter
from specbench.drafters.features.loaded import (
    chosen_switches,
    positions_known,
    switched,
    with_layers,
)
from specbench.drafters.grow.choose import TREE_OPTIONS, growth_for, tree_facts
from specbench.models.heads.configs import TargetShape
from specbench.models.quant.settings import QUANT_OPTIONS


class EagleDrafter(FeatureDrafter):
    """An EAGLE head over a tree.

    Attributes:
        family: of its checkpoints, see ``models.heads.configs.FAMILIES``.
        tree: default of the option.
        switches: options that replace a switch of the checkpoint, with their values; ``layers``
            is the side of the layer numbers in its file.
    """

    family: ClassVar[str]
    tree: ClassVar[str]
    switches: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    @classmethod
    def build(cls, options: dict[str, object], context: BuildContext) -> Self:
        """From an arm's options, see ``info``; loads the head.

        Raises:
            UsageError: options that do not fit each other, or a checkpoint of another family.
            PrerequisiteError: no such checkpoint, or one that does not fit the target.
        """
        growth = growth_for(options, context.draft_rows(), context.arm, cls.tree)
        wanted = chosen_switches(options, cls.switches, context.arm)
        side = wanted.pop("layers", None)
        checkpoint = switched(context.checkpoint(options, (cls.family,)), wanted)
        if side is not None:
            layers = TargetShape.of(context.target.config).layers
            checkpoint = with_layers(checkpoint, side, layers, context.arm)
        head = context.own_head(options, checkpoint)
        context.note_growth(growth.facts())
        return cls(head, growth, positions_known(checkpoint, context))


def eagle_info(
    name: str,
    summary: str,
    source: str,
    *,
    checkpoints: str,
    taps: str,
    tree: str,
    options: Mapping[str, str] = {},
) -> DrafterInfo:
    """Declared facts of an EAGLE drafter.

    Args:
        name, summary, source, taps: as in ``DrafterInfo``.
        checkpoints: what heads it loads.
        tree: drafted by default.
        options: of this one alone.
    """
    default, variants = tree_facts(tree)
    return DrafterInfo(
        name=name,
        summary=summary,
        source=source,
        default=default,
        taps=taps,
        kv="own",
        needs_model=True,
        options={
            "model": f"{checkpoints} head: hub id, folder or zoo:NAME, or untrained (required)",
            "revision": "revision of a hub id (none)",
            "dtype": "data type of the head (that of the target)",
            **QUANT_OPTIONS,
            **options,
            **TREE_OPTIONS,
            "tree": f"{TREE_OPTIONS['tree']} ({tree})",
        },
        variants=variants,
    )
