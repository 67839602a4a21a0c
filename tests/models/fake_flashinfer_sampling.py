"""What FlashInfer's sampling kernels compute, in float64 on lists and arrays, and what they refuse.

Written from the library's documentation and kernels (``softmax``, ``top_k_renorm_probs``,
``top_p_renorm_probs``, ``chain_speculative_sampling``), apart from the code that calls them.
"""

import types

import numpy as np
import torch

UNDEFINED = 2**30
"""What stands for the contents of shared memory that nobody wrote."""


def rows_of(tensor):
    assert tensor.is_contiguous()
    return tensor.double().numpy()


def softmax(logits, temperature=None, enable_pdl=None):
    scaled = rows_of(logits) / (1.0 if temperature is None else temperature)
    weights = np.exp(scaled - scaled.max(1, keepdims=True))
    return torch.from_numpy(weights / weights.sum(1, keepdims=True)).float()


def renormalised(rows, kept):
    """Rows without what is not kept, of mass 1."""
    left = np.where(kept, rows, 0.0)
    return torch.from_numpy(left / left.sum(1, keepdims=True)).float()


def top_k_renorm_probs(probs, top_k, is_deterministic=False):
    """Keeps by value, so what equals the k-th largest stays."""
    rows = rows_of(probs)
    assert 0 < top_k < rows.shape[1]
    return renormalised(rows, [line >= sorted(line)[-top_k] for line in rows])


def top_p_renorm_probs(probs, top_p, is_deterministic=False):
    """Keeps the largest value, and ever smaller ones until their mass is ``top_p``."""
    rows = rows_of(probs)
    assert 0 < top_p < 1
    kept = []
    for line in rows:
        values = sorted(set(line), reverse=True)
        masses = [line[line >= value].sum() for value in values]
        reached = (value for value, mass in zip(values, masses, strict=True) if mass >= top_p)
        kept.append(line >= next(reached, values[-1]))
    return renormalised(rows, kept)


def numbers(seed, offset, shape):
    """Uniform numbers in (0, 1], single precision; a batch of one seed draws one after the other.

    The real ones are another sequence. What is the same: row b has a stream of its own under the
    seed, so a row's numbers depend on its place.
    """
    generator = np.random.Generator(np.random.Philox(key=(seed << 64) | offset))
    return 1 - generator.random(shape, dtype=np.float32)


def of_first(value, batch):
    assert value.dtype in (torch.int64, torch.uint64)
    assert value.dim() == 1
    assert len(value) in (1, batch)
    return int(value[0])


def chain_speculative_sampling(
    draft_probs,
    draft_token_ids,
    target_probs,
    maybe_output_accepted_token_num=None,
    maybe_output_emitted_draft_token_num=None,
    deterministic=True,
    generator=None,
    seed=None,
    offset=None,
):
    """Tokens, and two counts: tests that pass anywhere, and drafts that are kept."""
    assert maybe_output_accepted_token_num is maybe_output_emitted_draft_token_num is None
    if draft_probs.device.type == "meta":
        made = torch.empty_like(draft_token_ids)
        return torch.cat([made, made[:, :1]], 1), made[:, 0], made[:, 0]
    assert draft_token_ids.dtype == torch.int32
    draft, target = (rows_of(t).astype(np.float32) for t in (draft_probs, target_probs))
    ids = draft_token_ids.numpy()
    batch, count, size = draft.shape
    assert count > 0
    assert target.shape == (batch, count + 1, size)
    # Nothing is checked there: another id reads beside the row.
    assert ((ids >= 0) & (ids < size)).all()
    key = of_first(seed, batch), of_first(offset, batch)
    drawn = library.numbers(*key, (batch, 2 * count + 1))
    q = np.take_along_axis(draft, ids[..., None], 2)[..., 0]
    p = np.take_along_axis(target[:, :-1], ids[..., None], 2)[..., 0]
    emitted = (drawn[:, :count] * q < p).cumprod(1).sum(1)
    # Behind the first rejection every draft is tested, that one once more.
    behind = np.arange(count) >= emitted[:, None]
    again = (drawn[:, count:-1] * q < p) & behind
    tokens = np.full((batch, count + 1), -1, dtype=np.int32)
    kept = ~behind
    tokens[:, :-1][kept] = ids[kept]
    left = target[np.arange(batch), emitted]
    rejected = emitted < count
    left[rejected] -= draft[rejected, emitted[rejected]]
    left = np.maximum(left, 0).astype(np.float64)
    points = drawn[:, -1] * left.sum(1)
    for row, place in enumerate(emitted):
        beyond = np.flatnonzero((left[row].cumsum() > points[row]) & (left[row] > 0))
        last = np.flatnonzero(left[row])
        found = beyond[:1] if len(beyond) else last[-1:]
        tokens[row, place] = found[0] if len(found) else UNDEFINED
    counts = torch.from_numpy(emitted + again.sum(1)), torch.from_numpy(emitted)
    return torch.from_numpy(tokens), *(found.int() for found in counts)


library = types.SimpleNamespace(
    softmax=softmax,
    top_k_renorm_probs=top_k_renorm_probs,
    top_p_renorm_probs=top_p_renorm_probs,
    chain_speculative_sampling=chain_speculative_sampling,
    numbers=numbers,
)
"""What stands for the module ``flashinfer.sampling``; ``numbers`` may be replaced."""
