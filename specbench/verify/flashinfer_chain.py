"""Rejection sampling by FlashInfer's kernel ``chain_speculative_sampling``, one launch per batch.

The law is that of ``rejection``. What is the library's own (read in 0.6.18):

* It accepts x where u * draft(x) < target(x) with u in (0, 1], and draws from relu(target - draft).
* ``emitted`` counts the accepted drafts. Its ``accepted`` also counts tests that pass behind the
  first rejection, and is not used.
* Settings are not applied: it gets rows that went through them. Drafts chosen without chance get
  unit rows.
* Rows are indexed by the drafted ids unchecked. Holes, ids out of range, ids that the draft law
  cannot have given and what lies behind a short draft are sent as a token of their own, behind the
  vocabulary. The draft has all its mass there and the target none, so it is always rejected and the
  target's whole row is left.
* Where u is 1 a draft is rejected though both rows are equal, once in 2^24. Then nothing is left to
  draw from and the kernel names an undefined id; the draft stays, whose law is the target's there.
* Of seeds and offsets only the first is read, and row b of the batch draws from subsequence b. The
  seed of a step is taken from the first request's numbers. So the tokens of a request depend on its
  place in the batch, and their law does not. A launch per request would avoid that, and would be a
  verifier that nobody runs.

Its two tables of rows take 4 B (2 N + 1) (V + 4) bytes: 360 MB for 64 requests with 5 drafts and
128,000 tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from specbench.decoding.laws import DraftLaws
from specbench.decoding.protocols import Acceptance, Lossless, RuleInfo, States, Uniforms
from specbench.decoding.rows import TargetRows
from specbench.decoding.tree import TokenTree, Trials
from specbench.models.kernel_library import FLASHINFER, require_library
from specbench.verify.chain import drafted, prefix
from specbench.verify.listed import ListedRule
from specbench.verify.ratio import ratio_test

INFO = RuleInfo(
    name="flashinfer_chain",
    source="FlashInfer, chain_speculative_sampling; Chen et al. 2023, 2302.01318",
    lossless=Lossless.CLAIMED,
    needs="processed",
    laws=("one_hot", "dense"),
    tree=False,
    temperature_zero="argmax match",
    device_only=True,
    library=FLASHINFER,
    batch_seeded=True,
)

SPARE = 4
"""Columns behind the vocabulary: as many as the kernel loads at once, so that rows stay aligned."""
_SEED_BITS = 53
"""Random bits of a uniform number."""

Find = Callable[[torch.device], Any]
"""A device -> the library, or an exception that says why it cannot run there."""


def chain_rule(find: Find) -> ListedRule:
    """The rule over the library that ``find`` gives."""
    return ListedRule(INFO, partial(_judge, find))


def _judge(
    find: Find,
    tree: TokenTree,
    trials: Trials,
    rows: TargetRows,
    laws: DraftLaws,
    states: States,
    uniforms: Uniforms,
) -> tuple[Acceptance, States]:
    if not tree.width:
        # Nothing to judge: the token is the target's own.
        return ratio_test(tree, trials, rows, laws, uniforms, 1.0), states
    kernel = find(tree.ids.device).sampling.chain_speculative_sampling
    vocabulary = rows.raw.shape[1]
    ids, chance = drafted(tree, trials, rows, laws)
    possible = chance > 0
    draft = laws.in_full(ids, trials.law, vocabulary + SPARE)
    draft.mul_(possible[:, :, None])[:, :, vocabulary] = (~possible).to(draft.dtype)
    target = functional.pad(rows.processed()[rows.index], (0, SPARE))
    sent = torch.where(possible, ids, vocabulary).int()
    # On the device: a number of the host would be the same in every replay of a capture.
    seed = (uniforms.residual[:1] * 2.0**_SEED_BITS).long()
    tokens, _, emitted = kernel(draft, sent, target, seed=seed, offset=torch.zeros_like(seed))
    count = emitted.long()
    path, kind = prefix(tree, count)
    drawn = tokens.long().gather(1, count[:, None]).squeeze(1)
    next_token = _defined(drawn, ids, count, draft, target)
    # Broken rows give any number; their requests fail, and until then the id must be one.
    return Acceptance(path, count, next_token.clamp(0, vocabulary - 1), kind), states


def _defined(drawn: Tensor, ids: Tensor, count: Tensor, draft: Tensor, target: Tensor) -> Tensor:
    """The token behind the accepted drafts; the rejected draft itself where nothing was left.

    Args:
        drawn: int64 [B] what the kernel says.
        ids, draft, target: what it judged, [B, N], [B, N, V + SPARE] and [B, N + 1, V + SPARE].
        count: int64 [B] accepted drafts.
    """
    request = torch.arange(len(count), device=count.device)
    failed = count.clamp(max=ids.shape[1] - 1)
    left = target[request, count].sub_(draft[request, failed]).amax(1) > 0
    return torch.where(left | (count == ids.shape[1]), drawn, ids[request, failed])


def _required(device: torch.device) -> Any:
    return require_library(FLASHINFER, str(device), f"rule = {INFO.name}", "use rule = 'rejection'")


RULE = chain_rule(_required)
