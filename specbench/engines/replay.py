"""Teacher-forced replay: evidence for outputs of any engine, from rows of a reference model.

A recorded output is fed as drafts that are accepted whole, through the forward, the sampling and
the evidence of decoding itself. What comes out depends on the recorded tokens and the reference
alone, not on the engine, drafter or rule that emitted them.

A draft model may be fed beside it. Bets and orders may be made from any law that is fixed before
the token, whether or not the engine drafted there: they show acceptance that leans towards drafts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from specbench.core.request import Request
from specbench.core.trace import Evidence
from specbench.decoding.emitted import NO_DRAFT, Emitted
from specbench.decoding.evidence import record
from specbench.decoding.laws import DenseLaws
from specbench.decoding.rows import TargetRows
from specbench.engines.feed import CHUNK, Feed
from specbench.engines.on_target import OnRecords
from specbench.engines.scheduler import FAILURES
from specbench.errors import SpecbenchError
from specbench.models.vocabulary import compare

__all__ = ["CHUNK", "Replay"]


class Replay(OnRecords):
    """A reference model that scores recorded outputs.

    Args:
        target: a ``[target]`` table as for the native engine: model, revision, dtype (default
            float32), device, prepack, template, system_policy.
        draft: the same for the draft model that the engine may have used; None = nothing of it.

    Raises:
        UsageError, PrerequisiteError: no such model, one that cannot run packed, or a draft with
            another tokenizer.
    """

    def __init__(self, target: Mapping[str, Any], draft: Mapping[str, Any] | None = None) -> None:
        self._target = Feed(target)
        super().__init__(self._target.opened, "reference")
        self._draft = None if draft is None else Feed(draft)
        if self._draft is not None:
            second = self._draft.opened.loaded
            compare(self._opened.loaded.tokenizer, second.tokenizer)
            self.limit_context(second.context_limit, "draft")

    def describe(self) -> dict[str, object]:
        """Model, hash, numerics and self-check, as the native engine describes its target."""
        return {"engine": "replay", **self._opened.facts()}

    @property
    def verify_error(self) -> float:
        """Largest logit difference between one row and ``CHUNK`` rows on the same tokens."""
        return self._opened.self_check.verify_error

    def score(
        self, request: Request, output_ids: Sequence[int], ends: Sequence[int] = ()
    ) -> Evidence:
        """Evidence for every recorded token, each given the prompt and the tokens before it.

        Without a draft model nothing counts as drafted: ``drafted`` is 0, the columns of drafts
        are None, and the PIT runs in target order. With one, everything does. Columns of rules are
        None. At temperature 0 ``target_top_hit`` says whether the recorded
        token is the reference's choice, which another engine does not guarantee.

        Args:
            request: prompt, sampling and minimum length; its length limit and stops end nothing.
            output_ids: the recorded output, [n]; n = 0 gives empty evidence.
            ends: ids of which one followed the output unseen. The likeliest stands for it, and the
                evidence has n + 1 positions.

        Raises:
            SpecbenchError: an id without a token in the reference, more tokens than its context or
                the draft's, broken logits, or a forward that failed.
        """
        tokens = [*output_ids, *ends[:1]]
        self.refuse(len(request.token_ids), tokens)
        if not tokens:
            return Evidence()
        evidence = Evidence()
        rows_of = self._target.follow(request, tokens)
        laws_of = None if self._draft is None else self._draft.follow(request, tokens)
        start = 0
        try:
            for rows in rows_of:
                laws = None if laws_of is None else self._laws(next(laws_of), rows)
                stop = start + rows.index.shape[1]
                if stop == len(tokens) and len(ends) > 1:
                    tokens[-1] = ends[int(rows.adjusted[-1][list(ends)].argmax())]
                _judge(evidence, rows, laws, tokens[start:stop])
                start = stop
        except FAILURES as error:
            reason = (str(error).strip() or "no message").splitlines()[0]
            raise SpecbenchError(f"{type(error).__name__}: {reason}") from error
        finally:
            rows_of.close()
            if laws_of is not None:
                laws_of.close()
        return evidence

    def close(self) -> None:
        """Drop the KV; the models go with this object."""
        self._target.close()
        if self._draft is not None:
            self._draft.close()

    def _laws(self, draft: TargetRows, target: TargetRows) -> DenseLaws:
        """Draft rows under the request's settings, with as many ids as the target's."""
        laws, wanted = draft.processed(), target.raw.shape[1]
        if laws.shape[1] < wanted:
            missing = laws.new_zeros(len(laws), wanted - laws.shape[1])
            laws = torch.cat([laws, missing], 1)
        return DenseLaws(laws[None, :, :wanted])


def _judge(
    evidence: Evidence, rows: TargetRows, laws: DenseLaws | None, tokens: Sequence[int]
) -> None:
    """Append the evidence of the tokens that follow the rows."""
    emitted = Emitted([], [], [], [], [])
    for place, (row, token) in enumerate(zip(rows.index[0].tolist(), tokens, strict=True)):
        emitted.add(0, row, token, place, NO_DRAFT if laws is None else token)
    record([evidence], emitted, rows, laws)
