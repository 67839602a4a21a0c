"""A draft model made of some of the target's layers, to be distilled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from specbench.errors import UsageError
from specbench.models.load import LoadedModel
from specbench.train.methods.models import own_weights, shared_copy

PER_LAYER = ("layer_types", "_layers")
"""Ends of keys of a configuration that hold a value per layer."""


def every_nth(target: LoadedModel, layers: int) -> Any:
    """A causal LM of ``layers`` of the target's layers, in float32, with weights of its own.

    The layers are evenly spaced, first and last among them; embedding, last norm and output
    projection are copied, and tied as the target's. Starting a student from layers of its teacher
    is DistilBERT's way (Sanh et al. 1910.01108, section 2).

    Raises:
        UsageError: fewer than one layer, or more than the target has.
    """
    count = int(target.config.get_text_config().num_hidden_layers)
    if not 1 <= layers <= count:
        raise UsageError(
            f"head.layers = {layers}: {target.location.name} has {count} layers",
            f"write 1 to {count}; fewer draft faster, more are accepted more often",
        )
    chosen = chosen_layers(count, layers)
    student = shared_copy(target.model)
    kept = [student.base_model.layers[place] for place in chosen]
    for place, layer in enumerate(kept):
        for module in layer.modules():
            if hasattr(module, "layer_idx"):
                module.layer_idx = place
    student.base_model.layers = nn.ModuleList(kept)
    _shorten(student.config.get_text_config(), chosen, count)
    own_weights(student)
    return student


def chosen_layers(count: int, layers: int) -> list[int]:
    """Places of ``layers`` layers out of ``count``, evenly spaced; of one layer the first."""
    return [round(place * (count - 1) / max(1, layers - 1)) for place in range(layers)]


def _shorten(config: Any, chosen: Sequence[int], count: int) -> None:
    """Make a configuration that of the chosen layers: how many there are, and what kind each is."""
    for name, value in list(vars(config).items()):
        if name.endswith(PER_LAYER) and isinstance(value, list) and len(value) == count:
            setattr(config, name, [value[place] for place in chosen])
    if dense := getattr(config, "first_k_dense_replace", 0):
        config.first_k_dense_replace = sum(place < dense for place in chosen)
    config.num_hidden_layers = len(chosen)
