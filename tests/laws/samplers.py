"""Samplers written from the papers, apart from the package, and broken ones; all adapters."""

import torch


def accepted_prefix(ids, passed):
    """Leading drafts that passed."""
    return passed.long().cumprod(1).sum(1)


def assembled(ids, count, token):
    """Accepted drafts, then the token, then -1."""
    slots = torch.arange(ids.shape[1] + 1)
    padded = torch.cat([ids, ids.new_full((len(ids), 1), -1)], 1)
    tokens = torch.where(slots < count[:, None], padded, -1)
    return torch.where(slots == count[:, None], token[:, None], tokens)


def pick(weights, uniforms):
    """Inverse-CDF draw in id order."""
    cumulative = weights.double().cumsum(1)
    return torch.searchsorted(cumulative, (uniforms * cumulative[:, -1])[:, None], right=True)[:, 0]


def rejection(target, draft, ids, accept, last, *, scale=1.0, subtract=True, closed=False):
    """Leviathan et al., algorithm 1; the keywords break it.

    ``scale`` lets more pass, ``subtract`` off draws from the target after a rejection, ``closed``
    accepts at u = p / q too.
    """
    size = target.shape[2]
    inside = (ids >= 0) & (ids < size)
    safe = torch.where(inside, ids, 0)[:, :, None]
    p = target[:, :-1].gather(2, safe)[:, :, 0]
    q = draft.gather(2, safe)[:, :, 0]
    passed = accept * q * scale <= p if closed else accept * q * scale < p
    count = accepted_prefix(ids, passed & inside)
    rows = torch.arange(len(ids))
    row = target[rows, count]
    place = count.clamp(max=ids.shape[1] - 1)
    residual = (row - draft[rows, place]).clamp(min=0) if subtract else row
    usable = (count < ids.shape[1]) & inside[rows, place] & (residual.sum(1) > 0)
    weights = torch.where(usable[:, None], residual, row)
    return assembled(ids, count, pick(weights, last))


def lenient(target, draft, ids, accept, last):
    """Lets more pass than it may."""
    return rejection(target, draft, ids, accept, last, scale=0.9)


def residual_from_target(target, draft, ids, accept, last):
    """Draws from the target after a rejection."""
    return rejection(target, draft, ids, accept, last, subtract=False)


def closed_at_zero(target, draft, ids, accept, last):
    """Accepts a token of probability 0 at u = 0; right everywhere else."""
    return rejection(target, draft, ids, accept, last, closed=True)


def first_id_for_holes(target, draft, ids, accept, last):
    """Takes -1 for the first id of the vocabulary."""
    return rejection(target, draft, ids.clamp(min=0), accept, last)


def in_place(target, draft, ids, accept, last):
    """Right, but leaves zeros in the draft's rows."""
    tokens = rejection(target, draft, ids, accept, last)
    draft.zero_()
    return tokens


def hidden_numbers(target, draft, ids, accept, last):
    """Draws its own numbers and ignores the arguments."""
    return rejection(target, draft, ids, torch.rand_like(accept), torch.rand_like(last))


def neighbours(target, draft, ids, accept, last):
    """Every round reads the last number of the round before it in the batch."""
    return rejection(target, draft, ids, accept, last.roll(1))


def raises(target, draft, ids, accept, last):
    """Knows no vocabulary."""
    raise LookupError("no such vocabulary")


def wrong_shape(target, draft, ids, accept, last):
    """Forgets the token behind the drafts."""
    return ids


def from_generator(target, draft, ids, generator, sampler=rejection):
    """Numbers from the generator, accept first."""
    batch, k = ids.shape
    accept = torch.rand(batch, k, generator=generator, dtype=torch.float64)
    last = torch.rand(batch, generator=generator, dtype=torch.float64)
    return sampler(target, draft, ids, accept, last)


def lenient_from_generator(target, draft, ids, generator):
    """Lets more pass than it may."""
    return from_generator(target, draft, ids, generator, lenient)


def from_elsewhere(target, draft, ids, generator):
    """Right, but its numbers are not the generator's."""
    return from_generator(target, draft, ids, None)


def counts(target, draft, samples, seed, sampler=rejection):
    """Drafts and judges by itself."""
    k = len(draft)
    generator = torch.Generator().manual_seed(seed)
    ids = torch.stack([torch.multinomial(row, samples, True, generator=generator) for row in draft])
    whole = [rows.expand(samples, -1, -1) for rows in (target, draft)]
    tokens = from_generator(*whole, ids.T, generator, sampler)
    found = [row[row >= 0].bincount(minlength=target.shape[1]) for row in tokens.T]
    assert len(found) == k + 1
    return torch.stack(found)


def lenient_counts(target, draft, samples, seed):
    """Lets more pass than it may."""
    return counts(target, draft, samples, seed, lenient)
