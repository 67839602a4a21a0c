"""Whether a head belongs to a target: sizes that must agree, with both numbers in the message."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from specbench.errors import PrerequisiteError
from specbench.models.heads.files import Checkpoint
from specbench.models.heads.target_facts import Target

_HINT = "use the target that the head was trained for"


def fit_hidden(checkpoint: Checkpoint, size: int, target: Target | None) -> None:
    """Raise PrerequisiteError where the head reads hidden states of another size."""
    if target is not None and size != target.hidden:
        raise PrerequisiteError(
            f"{checkpoint.path} reads hidden states of size {size}, the target's have size "
            f"{target.hidden}",
            _HINT,
        )


def fit_lent(
    checkpoint: Checkpoint, names: Collection[str], hidden: int, target_hidden: int
) -> None:
    """Raise PrerequisiteError where the target's ends cannot stand in for missing ones.

    Args:
        checkpoint: for messages.
        names: canonical names of what the checkpoint has.
        hidden, target_hidden: sizes of the head's and the target's hidden states.
    """
    ends = ("embed_tokens.weight", "lm_head.weight")
    missing = [name for name in ends if name not in names]
    if missing and hidden != target_hidden:
        raise PrerequisiteError(
            f"{checkpoint.path}: {missing[0]} is missing, and the target's has hidden size "
            f"{target_hidden}, the head's {hidden}",
            "fetch or copy the checkpoint again",
        )


def vocabulary_of(
    checkpoint: Checkpoint,
    stated: Iterable[tuple[str, int]],
    configured: object,
    target: Target | None,
) -> tuple[int | None, list[str]]:
    """Rows of the target's vocabulary as the head knows it, and what is odd.

    Args:
        checkpoint: for messages.
        stated: (where, rows) by tensors; these count.
        configured: ``vocab_size``; counts where no tensor says anything.
        target: what it must fit; None where that is not known.

    Raises:
        PrerequisiteError: tensors that contradict each other or the target.
    """
    rows = list(stated)
    by_config = configured if isinstance(configured, int) else None
    oddities = []
    if rows and by_config is not None and rows[0][1] != by_config:
        oddities.append(
            f"config.json says {by_config} tokens, {rows[0][0]} has {rows[0][1]}; the tensor counts"
        )
    if not rows and by_config is not None:
        rows = [("config.json", by_config)]
    if target is not None:
        rows.append(("the target", target.vocabulary))
    first = rows[0] if rows else None
    for where, found in rows:
        if first is not None and found != first[1]:
            raise PrerequisiteError(
                f"{checkpoint.path}: {first[0]} has {first[1]} tokens, {where} {found}", _HINT
            )
    return (first[1] if first else None), oddities
