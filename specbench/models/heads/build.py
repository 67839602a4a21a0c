"""From a checkpoint that was read to the modules that run it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from specbench.errors import PrerequisiteError
from specbench.models.heads.configs import EagleConfig, HeadCheckpoint, MtpConfig
from specbench.models.heads.fill import fill
from specbench.models.heads.lent import check_map
from specbench.models.heads.mtp import MtpHead
from specbench.models.heads.packed import FeatureHead
from specbench.models.linear import pack_linears
from specbench.models.load import LoadedModel
from specbench.models.weights import weight_bytes

if TYPE_CHECKING:
    from specbench.models.heads.eagle1 import Eagle1Head
    from specbench.models.heads.eagle3 import Eagle3Head

    _Network = Eagle1Head | Eagle3Head | MtpHead


def build_feature_head(
    checkpoint: HeadCheckpoint,
    target: LoadedModel,
    *,
    prepack: bool = False,
    split: Callable[[FeatureHead], None] | None = None,
) -> FeatureHead:
    """The network of an EAGLE or MTP head on the target's device.

    On a CPU the weights are the checkpoint's tensors, not copies, except experts, packed layers,
    and the target's output rows of a draft vocabulary.

    Args:
        checkpoint: read with ``read_head``.
        target: lends embedding and output projection where the checkpoint has none.
        prepack: whether linear layers are packed for a CPU.
        split: keeps of the head, in place, what this process is to hold.

    Raises:
        PrerequisiteError: tensors that are missing, left over, or of another shape; a
            configuration that transformers cannot lay out; output rows that the target cannot lend.
    """
    name = checkpoint.name or checkpoint.family
    # Laid out without storage first: the checkpoint's tensors become the weights.
    try:
        with torch.device("meta"):
            head = _network(checkpoint, target, name)
    except (KeyError, TypeError, ValueError) as error:
        raise PrerequisiteError(
            f"{name}: its layers cannot be laid out: {error!r}",
            "check the head's config.json and the installed transformers version",
        ) from error
    fill(head, checkpoint.tensors, name)
    check_map(checkpoint, target.model.get_input_embeddings().num_embeddings, name)
    head.eval().requires_grad_(False)
    head.dtype = checkpoint.dtype
    head.device = target.device
    head.take_rows(name)
    head.weight_bytes = weight_bytes(head)
    if split is not None:
        split(head)
    head.to(target.device)
    if prepack and target.device.type == "cpu":
        pack_linears(head)
    return head


def _network(checkpoint: HeadCheckpoint, target: LoadedModel, name: str) -> _Network:
    """The modules of a family."""
    names = frozenset(checkpoint.tensors)
    config = checkpoint.config
    if isinstance(config, MtpConfig):
        return MtpHead(config, target, names, name)
    if not isinstance(config, EagleConfig):
        raise PrerequisiteError(
            f"{name}: a head of family {checkpoint.family} does not draft from its own states",
            'choose the drafter of its family, e.g. drafter = "medusa"',
        )
    # Made of transformers' layers, whose import takes seconds: only where a head is built.
    from specbench.models.heads.eagle1 import Eagle1Head
    from specbench.models.heads.eagle3 import Eagle3Head

    if config.version == 1:
        return Eagle1Head(config, target, names, name)
    return Eagle3Head(config, target, names, name)
