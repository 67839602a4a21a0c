"""Teacher-forced replay: evidence for outputs of any engine, from rows of a reference model.

A recorded output is fed as drafts that are accepted whole, through the forward, the sampling and
the evidence of decoding itself. What comes out depends on the recorded tokens and the reference
alone, not on the engine, drafter or rule that emitted them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from specbench.core.prompt import RenderedPrompt
from specbench.core.request import Limits, Request, Stops
from specbench.core.trace import Evidence, Granularity, Trace
from specbench.decoding.evidence import record_step
from specbench.decoding.rows import TargetRows, refuse_broken
from specbench.decoding.sequence import Sequence as DecodedSequence
from specbench.decoding.stops import StopChecker
from specbench.decoding.tree import chain
from specbench.engines.scheduler import FAILURES
from specbench.errors import SpecbenchError
from specbench.models.kv_pool import KVPool
from specbench.models.opened import open_target
from specbench.models.target import PackedTarget
from specbench.models.vocabulary import real_ids

CHUNK = 32
"""Output tokens per forward; rows of vocabulary size live for one chunk."""


class Replay:
    """A reference model that scores recorded outputs.

    Args:
        target: a ``[target]`` table as for the native engine: model, revision, dtype (default
            float32), device, prepack, template, system_policy.

    Raises:
        UsageError, PrerequisiteError: no such model, or one that cannot run packed.
    """

    def __init__(self, target: Mapping[str, Any]) -> None:
        self._opened = open_target(target, CHUNK)
        loaded = self._opened.loaded
        self._forward = PackedTarget(self._opened.model, loaded.device)
        self._device = loaded.device
        self._pool: KVPool | None = None
        rows = self._opened.vocabulary
        self._known = frozenset(i for i in real_ids(loaded.tokenizer) if i < rows)
        self.context_limit = loaded.context_limit
        self.weight_hash = loaded.weight_hash

    def describe(self) -> dict[str, object]:
        """Model, hash, numerics and self-check, as the native engine describes its target."""
        return {"engine": "replay", **self._opened.facts()}

    @property
    def verify_error(self) -> float:
        """Largest logit difference between one row and ``CHUNK`` rows on the same tokens."""
        return self._opened.self_check.verify_error

    @property
    def tie_tolerance(self) -> float:
        """Largest top-2 margin that rounding can flip, as for the native engine."""
        return self._opened.tie_tolerance

    def render(self, messages: Sequence[Mapping[str, str]]) -> RenderedPrompt:
        """Chat template and tokenisation, see ``suites.templates.render``."""
        return self._opened.render(messages)

    def stops(self, strings: Sequence[str] = ()) -> Stops:
        """The reference's end-of-answer ids and the given strings."""
        return self._opened.stops(strings)

    def score(self, request: Request, output_ids: Sequence[int]) -> Evidence:
        """Evidence for every recorded token, each given the prompt and the tokens before it.

        Nothing counts as drafted: ``drafted`` is 0, the columns of drafts and rules are None, and
        the PIT runs in target order. At temperature 0 ``target_top_hit`` says whether the recorded
        token is the reference's choice, which another engine does not guarantee.

        Args:
            request: prompt, sampling and minimum length; its length limit and stops end nothing.
            output_ids: the recorded output, [n]; n = 0 gives empty evidence.

        Raises:
            SpecbenchError: an id without a token in the reference, more tokens than its context,
                broken logits, or a forward that failed.
        """
        self._refuse(request, output_ids)
        if not output_ids:
            return Evidence()
        pool = self._pool_for(len(request.token_ids) + len(output_ids))
        sequence = _sequence(request, len(output_ids), pool.admit(pool.capacity))
        try:
            self._follow(sequence, output_ids)
        except FAILURES as error:
            reason = (str(error).strip() or "no message").splitlines()[0]
            raise SpecbenchError(f"{type(error).__name__}: {reason}") from error
        finally:
            pool.release(sequence.slab)
        return sequence.trace.evidence

    def close(self) -> None:
        """Drop the KV; the model goes with this object."""
        self._opened.model.forget()
        self._pool = None

    def _refuse(self, request: Request, output_ids: Sequence[int]) -> None:
        for token in output_ids:
            if token not in self._known:
                raise SpecbenchError(
                    f"output id {token} has no token in the reference's vocabulary",
                    "name a reference with the tokenizer of the run's target",
                )
        length = len(request.token_ids) + len(output_ids)
        if length > self.context_limit:
            raise SpecbenchError(
                f"prompt and output have {length} tokens, "
                f"the reference's context {self.context_limit}",
                "name a reference with a longer context",
            )

    def _pool_for(self, rows: int) -> KVPool:
        if self._pool is None or self._pool.capacity < rows:
            # The old pool goes first: both together need not fit.
            self.close()
            self._pool = self._opened.new_pool(1, rows)
        return self._pool

    def _follow(self, sequence: DecodedSequence, output_ids: Sequence[int]) -> None:
        """Feed prompt and output; the row of each token judges the token behind it."""
        rows, _ = self._forward.prefill([sequence], ())
        _judge(sequence, rows, output_ids[:1])
        for start in range(1, len(output_ids), CHUNK):
            chunk = output_ids[start : start + CHUNK]
            # Row 0 is the token before the chunk, so the last one is judged without being fed.
            fed = torch.tensor([chunk[:-1]], dtype=torch.int64, device=self._device)
            tree = chain(fed, (len(chunk) - 1,))
            rows, _ = self._forward.verify([sequence], tree, ())
            self._forward.commit([sequence], tree, [range(len(chunk) - 1)])
            _judge(sequence, rows, chunk)


def _judge(sequence: DecodedSequence, rows: TargetRows, tokens: Sequence[int]) -> None:
    """Record the evidence of the next tokens and commit them."""
    refuse_broken(rows)
    record_step([sequence], None, rows, [(list(tokens), list(range(len(tokens))))])
    for token in tokens:
        sequence.append(token)


def _sequence(request: Request, tokens: int, slab: int) -> DecodedSequence:
    """A sequence that ends after ``tokens`` tokens, whatever they are."""
    prompt = len(request.token_ids)
    trace = Trace(
        key=request.key,
        arm="",
        concurrency=1,
        unit="",
        granularity=Granularity.REQUEST,
        seed=request.seed,
        prompt_tokens=prompt,
        prompt_hash="",
        start_ns=0,
    )
    stops = StopChecker(Stops(), Limits(tokens), prompt, None)
    return DecodedSequence(request, slab, trace, stops)
