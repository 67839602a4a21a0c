"""Heads that were overfitted on reference implementations accept; read in a wrong way, they don't.

Each wrong way is one that a loader or a network could take without any error.
"""

import itertools
from dataclasses import replace

import pytest
import torch

from specbench.decoding.protocols import Tap
from tests.models.heads.acceptance import K, right_tokens
from tests.models.heads.overfit import KINDS, overfitted

pytestmark = pytest.mark.usefixtures("one_thread")

ACCEPTS = 0.97 * K
CLEAR = 0.04 * K
"""A mutant has to lose this many right tokens per draft of ``K``."""


def configured(checkpoint, **changes):
    return replace(checkpoint, config=replace(checkpoint.config, **changes))


def swapped(checkpoint, *names):
    """Halves of the inputs of some weights, the other way round."""
    tensors = dict(checkpoint.tensors)
    for name in names:
        first, second = tensors[name].chunk(2, 1)
        tensors[name] = torch.cat([second, first], 1)
    return replace(checkpoint, tensors=tensors)


def mapped(checkpoint, ids):
    return replace(checkpoint, tensors={**checkpoint.tensors, "target_ids": ids})


def eagle1_mutants(c):
    return {
        "hidden state before the embedding": swapped(c, "fc.weight"),
        "state before the target's last norm": configured(c, taps=(Tap(7, "leaving"),)),
        "the target's rotary base": configured(c, rope_theta=500000.0),
    }


def eagle3_mutants(c):
    ids = c.tensors["target_ids"]
    rows = torch.arange(len(ids))
    taps = c.config.taps
    joined = [f"layers.0.self_attn.{part}_proj.weight" for part in ("q", "k", "v")]
    leaving = tuple(Tap(tap.layer, "leaving") for tap in taps)
    earlier = tuple(Tap(tap.layer - 1, "entering") for tap in taps)
    return {
        "hidden state before the embedding": swapped(c, *joined),
        "ids of entered layers read as left ones": configured(c, taps=leaving),
        "features one layer early": configured(c, taps=earlier),
        "features from high to low": configured(c, taps=taps[::-1]),
        "token map not applied": mapped(c, rows),
        "offsets read as ids": mapped(c, ids - rows),
        "normed state fed back": configured(c, recycle="post_norm"),
        "residual of the normed state": configured(c, norm_before_residual=True),
        "the target's rotary base": configured(c, rope_theta=500000.0),
    }


def mtp_mutants(c):
    orders = {"embedding_first": "hidden_first", "hidden_first": "embedding_first"}
    recycled = {"pre_norm", "post_norm", "target"} - {c.config.recycle}
    return {
        "halves of the projection": configured(c, order=orders[c.config.order]),
        "state before the target's last norm": configured(c, taps=(Tap(2, "leaving"),)),
        "embedding at position 0 kept": configured(c, zero_first=False),
    } | {f"recycled {name}": configured(c, recycle=name) for name in sorted(recycled)}


@pytest.mark.parametrize("kind", KINDS)
def test_read_as_trained_it_accepts_and_else_it_does_not(kind):
    found = overfitted(kind)
    base = right_tokens(found)
    assert base > ACCEPTS
    mutants = {"eagle1": eagle1_mutants, "eagle3": eagle3_mutants}.get(kind, mtp_mutants)
    left = {name: right_tokens(found, c) for name, c in mutants(found.checkpoint).items()}
    left["recycled states one position late"] = right_tokens(found, moved=1)
    left["recycled states one position early"] = right_tokens(found, moved=-1)
    assert {name: count for name, count in left.items() if count > base - CLEAR} == {}


@pytest.mark.parametrize("kind", KINDS)
def test_one_token_does_not_tell_the_next(kind):
    """Else a head could accept without looking at features or positions."""
    followers = {}
    for line in overfitted(kind).outputs:
        for token, following in itertools.pairwise(line):
            followers.setdefault(token, set()).add(following)
    assert sum(map(len, followers.values())) > 2 * len(followers)
