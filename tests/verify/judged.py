"""Batches of chains for the rules of the catalogue, and what two verdicts have in common."""

import torch

from specbench import catalog
from specbench.core.trace import ShortDraft
from specbench.decoding.protocols import Uniforms
from specbench.decoding.rows import TargetRows
from specbench.drafters.chain import chain_draft

CPU = torch.device("cpu")
B, N, V = 3, 2, 11
OPTIONS = {"synthetic": {"rate": 0.6}}
RULES = {
    name: rule.configure(OPTIONS.get(name, {}), N)
    for name in catalog.names("rules")
    if not (rule := catalog.resolve("rules", name)).info.library
}
"""Those in torch."""


def batch(settings, dense, seed, counts=(N,) * B, device=CPU):
    """Random drafts, rows and numbers; the same on every device."""
    random = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, V, (B, N), generator=random)
    ids[torch.arange(N) >= torch.tensor(counts)[:, None]] = -1
    count = B * (N + 1)
    logits = torch.randn(count, V, generator=random)
    # Rows that agree with some drafts, or nothing would be accepted.
    logits.view(B, N + 1, V)[:, :N].scatter_add_(
        2, ids.clamp(min=0)[..., None], torch.full((B, N, 1), 2.0)
    )
    rows = TargetRows(logits.to(device), torch.arange(count).view(B, -1), [settings] * count)
    laws = torch.rand(B, N, V, generator=random)
    drawn = laws / laws.sum(2, keepdim=True) if dense else None
    drawn = drawn if drawn is None else drawn.to(device)
    draft = chain_draft(ids.to(device), tuple(counts), drawn, [ShortDraft.NONE] * B)
    numbers = (
        torch.rand(shape, dtype=torch.float64, generator=random).to(device)
        for shape in ((B, N), (B,), (B,), (B, N + 1))
    )
    return draft.tree, draft.trials, rows, draft.laws, [None] * B, Uniforms(*numbers)


def same(found, wanted):
    for name in ("path", "n_accepted", "next_token", "kind"):
        assert torch.equal(getattr(found, name), getattr(wanted, name)), name
