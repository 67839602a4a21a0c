"""Samplers to repeat: right ones, whose alarms are false, and broken ones, which must be found.

Each emits one token per position (``laws.positions``) and is judged by evidence that declares
settings and draft law as an engine with that defect would declare them. None of the defects lowers
the accept length, and most raise it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from torch import Tensor

from specbench.core.request import Sampling
from specbench.decoding.laws import DenseLaws
from specbench.laws.positions import Positions
from specbench.verify.lenient import RULE as LENIENT
from specbench.verify.rejection import RULE as REJECTION
from specbench.verify.target_match import RULE as TARGET_MATCH
from specbench.verify.typical import RULE as TYPICAL

Emit = Callable[[Positions, np.random.Generator], Tensor]


@dataclass(frozen=True, slots=True)
class Sampler:
    """One way of emitting tokens.

    Attributes:
        name: as tables call it.
        emit: the tokens at all positions.
        sampled: whether its drafts are declared as drawn from the draft's row, or as its argmax.
        limit: tokens within which half of all runs must have found the defect at alpha = 1e-3, on
            random rows; 0 for samplers that are right.
        model_limit: the same on rows of the demo model: twice what was measured there.
        top_p: truncation that is declared.
    """

    name: str
    emit: Emit
    sampled: bool = True
    limit: int = 0
    model_limit: int = 0
    top_p: float = 1.0

    def setting(self, positions: Positions) -> Positions:
        """The positions as this sampler's engine declares them."""
        sampling = replace(positions.sampling, top_p=self.top_p)
        return Positions(positions.logits, positions.draft, sampling, self.sampled)


class ResidualFromTarget(DenseLaws):
    """Draft laws that are forgotten after a rejection: the target itself is drawn from."""

    def subtract_from(
        self, target: Tensor, row: Tensor, token: Tensor, scale: float = 1.0
    ) -> Tensor:
        """The target, nothing subtracted."""
        return target


def _lenient(lenience: float) -> Emit:
    rule = LENIENT.configure({"lenience": lenience})
    return lambda positions, generator: positions.emit(rule, generator)


def _residual_from_target(positions: Positions, generator: np.random.Generator) -> Tensor:
    laws = ResidualFromTarget(positions.draft[:, None])
    return positions.emit(REJECTION, generator, laws=laws)


def _argmax_scored_as_sampled(positions: Positions, generator: np.random.Generator) -> Tensor:
    """Drafts are the argmax, and the ratio divides by their softmax probability."""
    laws = DenseLaws(positions.draft[:, None])
    return positions.emit(REJECTION, generator, laws=laws, sampled=False)


def _at_temperature_one(positions: Positions, generator: np.random.Generator) -> Tensor:
    return positions.emit(REJECTION, generator, sampling=Sampling(1.0))


def _without_top_p(positions: Positions, generator: np.random.Generator) -> Tensor:
    whole = replace(positions.sampling, top_p=1.0)
    return positions.emit(REJECTION, generator, sampling=whole)


def _typical(positions: Positions, generator: np.random.Generator) -> Tensor:
    return positions.emit(TYPICAL.configure({}), generator)


RIGHT = (
    Sampler("rejection, sampled draft", lambda p, g: p.emit(REJECTION, g)),
    Sampler("rejection, argmax draft", lambda p, g: p.emit(REJECTION, g), sampled=False),
    Sampler("target_match, sampled draft", lambda p, g: p.emit(TARGET_MATCH, g)),
    Sampler("rejection, top-p 0.9", lambda p, g: p.emit(REJECTION, g), top_p=0.9),
)

BROKEN = (
    Sampler("lenience 0.9", _lenient(0.9), limit=4000, model_limit=6000),
    Sampler("lenience 0.8", _lenient(0.8), limit=900, model_limit=1200),
    Sampler("residual drawn from the target", _residual_from_target, limit=450, model_limit=600),
    Sampler(
        # The demo model's early exit is nearly certain of its first choice, or far off: the wrong
        # ratio then hardly differs from the right one, and takes long to find.
        "greedy draft scored with its softmax",
        _argmax_scored_as_sampled,
        limit=100,
        model_limit=25_000,
    ),
    Sampler("typical, argmax draft", _typical, sampled=False, limit=60, model_limit=100),
    Sampler("temperature ignored", _at_temperature_one, limit=150, model_limit=130),
    Sampler("top-p dropped", _without_top_p, limit=150, model_limit=50, top_p=0.9),
)
