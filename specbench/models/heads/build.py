"""From a checkpoint that was read to the modules that run it."""

from __future__ import annotations

from specbench.models.heads.configs import HeadCheckpoint
from specbench.models.heads.packed import FeatureHead
from specbench.models.load import LoadedModel


def build_feature_head(
    checkpoint: HeadCheckpoint, target: LoadedModel, *, prepack: bool = False
) -> FeatureHead:
    """The network of an EAGLE or MTP head on the target's device.

    Args:
        checkpoint: read with ``read_head``.
        target: lends embedding and output projection where the checkpoint has none.
        prepack: whether linear layers are packed for a CPU.

    Raises:
        PrerequisiteError: tensors that are missing, left over, or of another shape.
    """
    raise NotImplementedError
