"""Two samples of whole outputs: do two arms sample from the same law?

For engines that give no probabilities (ALGORITHMS 6.4). Far weaker than a test of tokens with
known probabilities; where those exist, use them. Every result therefore says what it would have
caught, and a test that could not have failed never passes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from specbench.fidelity.hamming import hamming_kernel, mmd_terms
from specbench.fidelity.outcomes import end_terms, first_token_terms, length_terms
from specbench.fidelity.relabel import Relabelling, Statistic, Terms
from specbench.fidelity.sample_verdict import TwoSample, judge

ALPHA = 0.05
PERMUTATIONS = 1999

Outputs = Mapping[str, Sequence[Sequence[int]]]
"""Prompt -> token ids of each sampled output; prompts and arms may hold different numbers."""
Ended = Mapping[str, Sequence[bool]]
"""Prompt -> whether each output ended by itself, in the order of ``Outputs``."""


def two_sample(
    arm: Outputs,
    reference: Outputs,
    *,
    seed: int,
    arm_ended: Ended | None = None,
    reference_ended: Ended | None = None,
    alpha: float = ALPHA,
    permutations: int = PERMUTATIONS,
) -> TwoSample:
    """Compare whole outputs, first tokens, lengths and, where known, how often outputs end.

    Args:
        arm, reference: outputs under the same prompts, settings and length limit, with random
            numbers of their own; outputs that share a seed are not two samples.
        seed: seed of the relabellings.
        arm_ended, reference_ended: give both to compare the rate of ends as well.
        alpha: chance that any test fails where the laws are equal.
        permutations: relabellings; at least 999 for a result that is shown to anyone.

    Raises:
        ValueError: a prompt has another number of flags than of outputs.
    """
    shared = [prompt for prompt in arm if len(arm[prompt]) and len(reference.get(prompt, ()))]
    sizes = [(len(arm[prompt]), len(reference[prompt])) for prompt in shared]
    statistics = _statistics(sizes, [[*arm[prompt], *reference[prompt]] for prompt in shared])
    if arm_ended is not None and reference_ended is not None:
        flags = [
            [*_flags(prompt, arm, arm_ended), *_flags(prompt, reference, reference_ended)]
            for prompt in shared
        ]
        statistics.append(_end_rate(flags))
    relabelling = Relabelling(sizes, permutations, seed)
    unpaired = len(arm.keys() | reference.keys()) - len(shared)
    return TwoSample(judge(relabelling, statistics, alpha, seed), alpha, unpaired)


def same_vs_same(
    samples: Outputs,
    *,
    seed: int,
    ended: Ended | None = None,
    alpha: float = ALPHA,
    permutations: int = PERMUTATIONS,
) -> TwoSample:
    """``two_sample`` on random halves of one arm's outputs: fails with chance ``alpha`` at most.

    Shown beside a comparison, it is the check that the tests hold their level on these prompts.
    Its samples are half as large, so it would have caught less.
    """
    rng = np.random.default_rng([seed, 2])
    orders = {prompt: rng.permutation(len(samples[prompt])).tolist() for prompt in samples}
    halves = [
        {prompt: order[: len(order) // 2] for prompt, order in orders.items()},
        {prompt: order[len(order) // 2 :] for prompt, order in orders.items()},
    ]
    arm, reference = ({p: [samples[p][i] for i in half[p]] for p in half} for half in halves)
    ends: list[Ended | None] = [None, None]
    if ended is not None:
        flags = {prompt: _flags(prompt, samples, ended) for prompt in samples}
        ends = [{p: [flags[p][i] for i in half[p]] for p in half} for half in halves]
    return two_sample(
        arm,
        reference,
        seed=seed,
        arm_ended=ends[0],
        reference_ended=ends[1],
        alpha=alpha,
        permutations=permutations,
    )


def _statistics(
    sizes: Sequence[tuple[int, int]], pooled: Sequence[Sequence[Sequence[int]]]
) -> list[Statistic]:
    longest = max((len(output) for outputs in pooled for output in outputs), default=0)
    whole: list[Terms | None] = []
    first: list[Terms | None] = []
    length: list[Terms | None] = []
    for size, outputs in zip(sizes, pooled, strict=True):
        # With one output each, swapping the two changes no unsigned statistic.
        several = sum(size) > 2
        whole.append(mmd_terms(hamming_kernel(outputs, longest)) if min(size) > 1 else None)
        first.append(first_token_terms(outputs) if several else None)
        length.append(length_terms(outputs) if several else None)
    return [
        Statistic("mmd", tuple(whole)),
        Statistic("first_token", tuple(first)),
        Statistic("length", tuple(length)),
    ]


def _end_rate(flags: Sequence[Sequence[bool]]) -> Statistic:
    """Signed: a stop that is missed moves the rate of every prompt the same way."""
    every = [flag for own in flags for flag in own]
    rarer = 2 * sum(every) < len(every)
    return Statistic("eos_rate", tuple(end_terms(own, rarer) for own in flags), signed=True)


def _flags(prompt: str, outputs: Outputs, ended: Ended) -> Sequence[bool]:
    found = ended.get(prompt, ())
    if len(found) != len(outputs[prompt]):
        raise ValueError(
            f"prompt {prompt}: {len(outputs[prompt])} outputs but {len(found)} end flags"
        )
    return found
