"""What an EAGLE-3 head does with its inputs and its own hidden state (ALGORITHMS 3.3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from specbench.errors import PrerequisiteError, UsageError
from specbench.models.heads.files import Checkpoint
from specbench.models.heads.layouts.llama_config import positive, said, stated
from specbench.models.heads.layouts.taps import (
    ENTERING,
    KEY,
    LEAVING,
    Place,
    convention,
    default_places,
    layer_ids,
    places_of,
)
from specbench.models.heads.target_facts import Target

DEFAULT_TAPS = 3


@dataclass(frozen=True, slots=True)
class Features:
    """What a head reads of the target.

    Attributes:
        target_hidden: size of its hidden states.
        places: None where they depend on its number of layers.
        ids: layer numbers that the file names.
        oddities: see ``HeadCheckpoint``.
    """

    target_hidden: int
    places: tuple[Place, ...] | None
    ids: tuple[int, ...]
    oddities: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Switches:
    """Fields of ``EagleConfig``; tensors count where there are any."""

    norm_before_residual: bool
    norm_before_fc: bool
    fc_norm: bool

    @classmethod
    def of(cls, checkpoint: Checkpoint, sources: Mapping[str, str], odd: list[str]) -> Switches:
        """From tensors and configuration; notes where they differ.

        Raises:
            PrerequisiteError: a norm that the configuration asks for and that is not there, or
                both kinds at once.
        """
        present = {
            "norm_before_fc": "input_norm.weight" in sources,
            "fc_norm": any(name.startswith("fc_norm.") for name in sources),
        }
        for key, there in present.items():
            wanted = bool(said(checkpoint.config, key, bool, str(checkpoint.path)))
            if wanted and not there:
                raise PrerequisiteError(
                    f"{checkpoint.path}: config.json says {key}, its tensors are missing",
                    "fetch or copy the checkpoint again",
                )
            if there and not wanted:
                odd.append(f"has the norms of {key}, which config.json does not say; they are used")
        if all(present.values()):
            raise PrerequisiteError(
                f"{checkpoint.path} has both one norm before fc and one per layer",
                "the two exclude each other; ask the head's authors which one is meant",
            )
        where = str(checkpoint.path)
        residual = bool(said(checkpoint.config, "norm_before_residual", bool, where))
        return cls(residual, present["norm_before_fc"], present["fc_norm"])


def features(checkpoint: Checkpoint, layout: str, width: int, target: Target | None) -> Features:
    """Tapped layers and the target's hidden size, from the width of ``fc``.

    Raises:
        PrerequisiteError: a width that the layers do not divide, or layers the target lacks.
        UsageError: a head on the last hidden state, which is another network.
    """
    where = str(checkpoint.path)
    nested = said(checkpoint.config, "eagle_config", Mapping, where) or {}
    if said(nested, "use_aux_hidden_state", bool, where) is False:
        raise UsageError(
            f"{checkpoint.path} reads the target's last hidden state alone "
            "(use_aux_hidden_state false), which is not run natively",
            "run it on vLLM",
        )
    ids = layer_ids(checkpoint.config, where)
    key = "num_aux_hidden_states"
    told = positive(stated(checkpoint.config, key, int, DEFAULT_TAPS, where), key, where)
    count = len(ids) if ids else told
    if width % count or (ids is None and count != DEFAULT_TAPS):
        raise PrerequisiteError(
            f"{checkpoint.path}: fc reads {width} columns of {count} layers, and which layers is "
            "not said or does not fit",
            f"give {KEY} in its config.json",
        )
    if ids is None:
        places = None if target is None else default_places(target.layers)
        note = "does not name the target's layers; those entering 2, half-way, 3 from the end"
        return Features(width // count, places, (), (note,))
    side, note = convention(ids, speculators=layout == "speculators")
    layers = None if target is None else target.layers
    if side == LEAVING and layers == max(ids):
        # Nothing leaves a layer behind the last one, but what would enter it leaves that.
        side = ENTERING
        note = (
            f"the file does not say which side of layers {ids} is meant; taken as entering them "
            f"because the target's last layer is {layers - 1}"
        )
    places = places_of(ids, side, layers)
    return Features(width // count, places, tuple(ids), (note,) if note else ())


def recycled(checkpoint: Checkpoint, layout: str, odd: list[str]) -> str:
    """Which hidden state the next drafting step takes: ``pre_norm`` or ``post_norm``.

    One key has two meanings. speculators, vLLM and SGLang feed the normed state back where
    ``norm_output`` is set. SpecForge, whose files name the layer ``midlayer``, first trained with
    the key set and fed the state before the norm back; since its pull request 879 it means what
    the servers mean.
    """
    if not said(checkpoint.config, "norm_output", bool, str(checkpoint.path)):
        return "pre_norm"
    if layout in ("speculators", "vllm"):
        return "post_norm"
    odd.append(
        "norm_output in SpecForge's names: taken as its first releases trained it (state before "
        "the norm fed back); SGLang, vLLM and SpecForge from pull request 879 on feed the normed "
        "state back"
    )
    return "pre_norm"
