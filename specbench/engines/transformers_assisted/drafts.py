"""An arm's draft in the form that ``generate`` takes."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers.generation.candidate_generator import AssistantVocabTranslatorCache

from specbench.core.arm import ArmSpec
from specbench.engines.transformers_assisted.arms import DraftSettings, draft_settings
from specbench.engines.transformers_assisted.settings import draft_length
from specbench.errors import UsageError
from specbench.models import vocabulary
from specbench.models.early_exit import early_exit
from specbench.models.linear import pack_linears
from specbench.models.load import LoadedModel, load_model
from specbench.models.locate import locate


@dataclass(slots=True)
class Draft:
    """What an arm adds to a call of ``generate``.

    Attributes:
        config: fields of the generation configuration.
        carrier: the model whose own configuration says how long drafts are; None without one.
        loaded: the second model, where there is one.
        layers: layers of an early exit, which keeps keys and values of its own.
    """

    arm: ArmSpec
    settings: DraftSettings
    config: Mapping[str, object] = field(default_factory=dict)
    carrier: Any = None
    loaded: LoadedModel | None = None
    layers: int = 0

    def unsupported(self, greedy: bool) -> str:
        """Why requests at temperature 0 (or above) cannot run; empty if they can."""
        return ""

    def arguments(self, greedy: bool) -> dict[str, Any]:
        """Keyword arguments of ``generate``; sets the draft length."""
        if self.carrier is None:
            return {}
        self._limit(self.carrier)
        return {} if self.loaded is None else {"assistant_model": self.carrier}

    def _limit(self, model: Any) -> None:
        settings = self.settings
        model.generation_config = draft_length(self.arm.k, settings.schedule, settings.confidence)


@dataclass(slots=True)
class UniversalDraft(Draft):
    """A draft of another tokenizer; both sides exchange text (universal assisted decoding).

    Above temperature 0 the library cuts the draft's head down to the shared tokens, in place, and
    keys its translation by tokenizer. Sampled requests therefore get a copy of model and tokenizer.
    """

    target_tokenizer: Any = None
    target_rows: int = 0
    _sampled: tuple[Any, Any] | None = None

    def unsupported(self, greedy: bool) -> str:
        """Sampling needs a draft with a token that the target lacks: the library fails else."""
        assert self.loaded is not None
        own = set(self.loaded.tokenizer.get_vocab()) - set(self.target_tokenizer.get_vocab())
        if greedy or own:
            return ""
        return (
            "above temperature 0 transformers cannot use a draft whose tokens are all among the "
            "target's, but whose vocabulary has another size"
        )

    def arguments(self, greedy: bool) -> dict[str, Any]:
        """Model and both tokenizers; sets the draft length, in the draft's tokens."""
        assert self.loaded is not None
        model, tokenizer = self.carrier, self.loaded.tokenizer
        if not greedy:
            if self._sampled is None:
                self._sampled = self._cut_down(model, tokenizer)
            model, tokenizer = self._sampled
        self._limit(model)
        return {
            "assistant_model": model,
            "tokenizer": self.target_tokenizer,
            "assistant_tokenizer": tokenizer,
        }

    def _cut_down(self, model: Any, tokenizer: Any) -> tuple[Any, Any]:
        """Copies that the library has adapted; left to the first request, that would take its
        time and random numbers (the new head is initialised before it is filled)."""
        copies = copy.deepcopy(model), copy.deepcopy(tokenizer)
        with torch.random.fork_rng(devices=[]):
            AssistantVocabTranslatorCache.get_translator(
                self.target_tokenizer,
                copies[1],
                self.target_rows,
                assistant_model=copies[0],
                assistant_prune_lm_head=True,
            )
        return copies


def open_draft(arm: ArmSpec, target: LoadedModel, prepack: bool) -> Draft:
    """Check an arm's options against the models and load its draft.

    Raises:
        UsageError: options that transformers does not offer, layers outside the target, or a
            draft with another tokenizer that was not declared universal.
        PrerequisiteError: the draft cannot be loaded.
    """
    settings = draft_settings(arm)
    if arm.drafter == "ngram":
        config = {"prompt_lookup_num_tokens": arm.k, "max_matching_ngram_size": settings.max_n}
        return Draft(arm, settings, config)
    if arm.drafter == "layer_skip":
        total = target.config.get_text_config().num_hidden_layers
        layers = max(1, total // 3) if settings.layers is None else settings.layers
        # Made for its refusals only: the library runs the target itself with fewer layers.
        early_exit(target.model, layers)
        config = {"assistant_early_exit": layers}
        return Draft(arm, settings, config, carrier=target.model, layers=layers)
    if arm.drafter == "draft_model":
        return _second_model(arm, settings, target, prepack)
    return Draft(arm, settings)


def _second_model(
    arm: ArmSpec, settings: DraftSettings, target: LoadedModel, prepack: bool
) -> Draft:
    loaded = load_model(
        locate(settings.model, revision=settings.revision),
        dtype=settings.dtype or str(target.dtype).removeprefix("torch."),
        device=str(target.device),
    )
    rows, drawn = (m.config.get_text_config().vocab_size for m in (target, loaded))
    if settings.universal:
        # The library tells tokenizers apart by the size of the models' vocabularies.
        if rows == drawn:
            raise UsageError(
                f"arm {arm.name}: universal = true, but target and draft both have {rows} "
                "vocabulary rows: transformers takes their tokenizers for the same",
                "leave universal out if they are, else use another draft",
            )
        return UniversalDraft(
            arm,
            settings,
            carrier=loaded.model,
            loaded=loaded,
            target_tokenizer=target.tokenizer,
            target_rows=rows,
        )
    vocabulary.compare(target.tokenizer, loaded.tokenizer)
    if rows != drawn:
        raise UsageError(
            f"arm {arm.name}: the target has {rows} vocabulary rows, the draft {drawn}: "
            "transformers joins these only by exchanging text",
            "set universal = true in the arm's options",
        )
    if prepack:
        pack_linears(loaded.model)
    return Draft(arm, settings, carrier=loaded.model, loaded=loaded)
