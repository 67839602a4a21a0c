"""What drafts: a model by its configuration, a head by its files, or a head that is made up."""

from __future__ import annotations

from dataclasses import replace

from specbench.errors import UsageError
from specbench.models.heads.sniff import holds_only_a_head
from specbench.models.shapes.find import Configured, configuration, require_model
from specbench.models.shapes.heads import FAMILIES, made_up, read_head_shape
from specbench.models.shapes.read import read_shape
from specbench.models.shapes.stored import Wanted, read_precision
from specbench.roofline.cost import Precision
from specbench.roofline.devices import BITS
from specbench.roofline.memory import Stored


def draft_of(
    name: str, target: Configured, stored: Stored, wanted: Wanted, drafted: int | None = None
) -> Stored:
    """The draft's shape and how it is stored.

    Args:
        name: a family of ``heads.FAMILIES``, or what ``configuration`` finds.
        target: its configuration.
        stored: the target.
        wanted: types for target and draft; bits count for the target alone.
        drafted: tokens that a made-up head drafts.

    Raises:
        UsageError: nothing is known by this name, it is no draft, or ``drafted`` does not apply.
        PrerequisiteError: a model or head that cannot be read, or does not fit.
    """
    shape, precision = stored
    if name in FAMILIES:
        # Modules for multi-token prediction lie in the target's checkpoint and are stored alike.
        own = precision if name == "mtp" else _beside(precision)
        return made_up(name, shape, target.config, drafted), own
    if drafted is not None:
        raise UsageError(
            f"--draft-vocab with the draft {name}, whose vocabulary is in its files",
            f"it is for heads that are made up: --draft {', '.join(FAMILIES)}",
        )
    found = configuration(name)
    if found.folder is not None and holds_only_a_head(found.folder):
        head = read_head_shape(name, found.folder, shape, target.config)
        return head, _beside(precision)
    require_model(found)
    chosen = read_precision(found.config, replace(wanted, bits=None), name)
    return read_shape(found.config, name), chosen


def _beside(target: Precision) -> Precision:
    """A head is not quantised with its target: it is in 16 bits beside one in 8."""
    dtype = "bfloat16" if BITS[target.dtype] < 16 else target.dtype
    return Precision(dtype, BITS[dtype], BITS[dtype], target.kv_bits)
