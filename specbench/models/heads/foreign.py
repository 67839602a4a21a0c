"""Drafters of the field that only servers run: how to tell them, and who runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Foreign:
    """What a folder holds that the native engine does not run.

    Attributes:
        kind: short name.
        what: one clause for people.
        runs_on: servers and the versions known to run it.
    """

    kind: str
    what: str
    runs_on: str


PEAGLE = Foreign("peagle", "P-EAGLE, parallel drafting with an EAGLE-3 head", "vLLM >= 0.16")
PARD = Foreign("pard", "PARD, parallel drafting with a draft model", "vLLM >= 0.16")
DFLASH = Foreign("dflash", "DFlash, block diffusion drafts", "vLLM >= 0.19 and SGLang (DFLASH)")
DFLASH2 = Foreign("dflash2", "DFlash2, block diffusion drafts", "vLLM >= 0.28")
DSPARK = Foreign(
    "dspark", "DSpark, block drafts with a Markov head", "vLLM >= 0.26 (seen there; maybe earlier)"
)
HYDRA = Foreign("hydra", "Hydra, Medusa heads that see the draft", "its authors' code")
MLP = Foreign("mlp_speculator", "an MLP speculator", "vLLM (first version not known here)")
MIMO_V2 = Foreign("mimo_v2_mtp", "MTP layers in MiMo-V2's names", "SGLang or vLLM as method mtp")
QWEN_MTP = Foreign(
    "qwen_mtp",
    "MTP layers of Qwen3-Next or later, whose targets have recurrent layers",
    "vLLM or SGLang as method mtp",
)
UNKNOWN_SPECULATORS = Foreign("speculators", "a speculators type that is not known here", "vLLM")

_SPECULATORS = {
    "peagle": PEAGLE,
    "dflash": DFLASH,
    "dflash2": DFLASH2,
    "dspark": DSPARK,
    "hydra": HYDRA,
    "mlp": MLP,
    "pard": PARD,
}
_NATIVE_SPECULATORS = ("eagle", "eagle3", "mtp")
_RECURRENT = ("qwen3_next", "qwen3_5", "qwen3_6")


def foreign(config: Mapping[str, Any], names: Iterable[str]) -> Foreign | None:
    """What only a server runs; None for everything else.

    Args:
        config: ``config.json``.
        names: of the tensors.
    """
    if (kind := speculators_type(config)) is not None and kind not in _NATIVE_SPECULATORS:
        return _SPECULATORS.get(kind, UNKNOWN_SPECULATORS)
    known = list(names)
    return next((found for found, test in _TESTS if test(config, known)), None)


def speculators_type(config: Mapping[str, Any]) -> str | None:
    """The kind that a speculators configuration names; None where there is none."""
    if kind := config.get("speculators_model_type"):
        return str(kind)
    inner = config.get("speculators_config")
    algorithm = inner.get("algorithm") if isinstance(inner, Mapping) else None
    return str(algorithm) if algorithm else None


def by_speculators(config: Mapping[str, Any]) -> bool:
    """Whether speculators wrote a configuration, also one that names no kind."""
    return any(config.get(key) for key in ("speculators_model_type", "speculators_config"))


def architectures(config: Mapping[str, Any]) -> list[str]:
    """Classes that a configuration names; empty where it names none in a list."""
    named = config.get("architectures")
    return [str(name) for name in named] if isinstance(named, list) else []


def _architecture(config: Mapping[str, Any]) -> str:
    return " ".join(architectures(config)).lower()


def _is_recurrent(config: Mapping[str, Any]) -> bool:
    inner = [config.get(key) for key in ("transformer_layer_config", "text_config")]
    found = next((c for c in inner if isinstance(c, Mapping)), config)
    return str(found.get("model_type", "")).startswith(_RECURRENT)


def _has(names: list[str], *starts: str) -> bool:
    return any(name.startswith(starts) for name in names)


_TESTS: list[tuple[Foreign, Callable[[Mapping[str, Any], list[str]], bool]]] = [
    (DSPARK, lambda c, n: "dspark" in _architecture(c) or "dspark_config" in c),
    (DFLASH2, lambda c, n: "dflash2" in _architecture(c)),
    (DFLASH, lambda c, n: "dflash" in _architecture(c) or "dflash_config" in c),
    (PEAGLE, lambda c, n: "peagle" in _architecture(c) or any("mask_hidden" in x for x in n)),
    (HYDRA, lambda c, n: "hydra_num_heads" in c or _has(n, "hydra_head.", "hydra_mlp.")),
    (MLP, lambda c, n: "mlpspeculator" in _architecture(c) or c.get("model_type") == MLP.kind),
    (PARD, lambda c, n: "pard_token" in c),
    (QWEN_MTP, lambda c, n: _has(n, "mtp.fc.", "mtp.pre_fc_norm_")),
    (QWEN_MTP, lambda c, n: _has(n, "mtp_layers.") and _is_recurrent(c)),
    (MIMO_V2, lambda c, n: _has(n, "model.mtp.layers.")),
]
