"""The tokens that a draft can propose, as losses need them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from specbench.errors import PrerequisiteError, UsageError
from specbench.models.heads.configs import FINAL
from specbench.models.heads.lent import lent_rows
from specbench.models.load import LoadedModel
from specbench.models.vocabulary import padding_mask, real_ids
from specbench.train.capture.corpus import Batch
from specbench.train.losses.rows import TargetProbs, target_probs

SCALED = ("final_logit_softcapping", "logit_scale", "logits_scaling")
"""Keys of configurations whose models change logits behind the output projection."""


@dataclass(frozen=True, slots=True)
class DraftVocabulary:
    """Rows of a draft's logits and of the target's output projection.

    Attributes:
        projection: [Vd, H] the target's output rows of these tokens, float32 and frozen.
        bias: [Vd] what the projection adds, or None.
        rows: int64 [V] token -> row of the draft, -1 where it has none.
        padding: bool [Vd] of rows without a token, or None; they get no probability on either side.
        whole: whether there is every token that the target can say.
    """

    projection: Tensor
    bias: Tensor | None
    rows: Tensor
    padding: Tensor | None
    whole: bool

    @classmethod
    def of(cls, target: LoadedModel, ids: Tensor | None) -> DraftVocabulary:
        """Of tokens ``ids`` int64 [Vd]; None for the whole vocabulary.

        Raises:
            PrerequisiteError: a quantised output projection, or logits that are scaled behind it.
        """
        _refuse_scaled(target)
        output = target.model.get_output_embeddings()
        count = output.out_features
        chosen = torch.arange(count) if ids is None else ids.cpu()
        rows = torch.full((count,), -1, dtype=torch.int64)
        rows[chosen] = torch.arange(len(chosen))
        mask = torch.zeros(count, dtype=torch.bool)
        if target.real_vocab_size < count:
            mask = padding_mask(count, real_ids(target.tokenizer))
        whole = bool(((rows >= 0) | mask).all())
        if len(chosen) < count or not isinstance(output, nn.Linear):
            output = lent_rows(output, chosen, torch.float32, target.location.name)
        bias = None if output.bias is None else output.bias.detach().float()
        device, hidden = output.weight.device, mask[chosen]
        padding = hidden.to(device) if bool(hidden.any()) else None
        return cls(output.weight.detach().float(), bias, rows.to(device), padding, whole)

    def require(self, temperature: float) -> None:
        """Raise UsageError where the target's law at a temperature is not known.

        What captured rows sum to is known at temperature 1 alone.
        """
        if temperature != 1 and not self.whole:
            raise UsageError(
                f"train.temperature = {temperature:g}: a law at another temperature than 1 needs "
                f"the whole vocabulary, and this draft has {len(self.projection)} of "
                f"{len(self.rows)} tokens",
                "write temperature = 1, or leave head.draft_vocabulary out",
            )

    def probs(self, batch: Batch, rows: Tensor, temperature: float = 1.0) -> TargetProbs:
        """The target's law behind packed places int64 [M] of a batch."""
        final = batch.states[FINAL][rows]
        # Where the network runs in fewer bits, what it is held against does not.
        with torch.no_grad(), torch.autocast(final.device.type, enabled=False):
            logits = functional.linear(final.float(), self.projection, self.bias)
            return target_probs(
                self.drafted(logits, temperature),
                None if self.whole else batch.lse[rows],
                self.rows[batch.ids[rows + 1]],
                self.rows[batch.best[rows]],
            )

    def drafted(self, logits: Tensor, temperature: float = 1.0) -> Tensor:
        """Logits [M, Vd] in float32 at a temperature, with nothing at rows without a token."""
        logits = logits.float() if temperature == 1 else logits.float() / temperature
        if self.padding is None:
            return logits
        # Not -inf: it would be multiplied by probabilities of 0.
        return logits.masked_fill(self.padding, torch.finfo(logits.dtype).min)


def _refuse_scaled(target: LoadedModel) -> None:
    """Raise PrerequisiteError for a target whose projection alone does not give its logits."""
    text = target.config.get_text_config()
    for key in SCALED:
        if (value := getattr(text, key, None)) not in (None, 1):
            raise PrerequisiteError(
                f"{target.location.name} changes its logits behind the output projection "
                f"({key} = {value}), which training does not follow",
                "train for another target",
            )
