"""The [[anchor]] tables: published values that a run is held against once it is done."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from specbench.experiment.workload import Border


class AnchorSetup(Border):
    """Under which settings the value was published, as far as the publication says."""

    engine: str | None = None
    dtype: str | None = None
    quant: str | None = None
    k: Annotated[int, Field(ge=0)] | None = None
    max_new_tokens: Annotated[int, Field(ge=1)] | None = None
    prompts: Annotated[int, Field(ge=1)] | None = None


class Anchor(Border):
    """A published value of one arm; ``tolerance`` is a share of it."""

    arm: str
    metric: Literal[
        "accept_length",
        "accept_length_drafted",
        "accept_length_uncut",
        "accepted_mean",
        "accept_rate",
        "accept_pos",
        "speedup",
    ]
    position: Annotated[int, Field(ge=1)] | None = None
    suite: str | None = None
    temperature: Annotated[float, Field(ge=0)] = 0.0
    value: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    tolerance: Annotated[float, Field(gt=0, lt=1)]
    source: Annotated[str, Field(min_length=1)]
    setup: AnchorSetup = Field(default_factory=AnchorSetup)

    @model_validator(mode="after")
    def _position(self) -> Anchor:
        if (self.position is None) == (self.metric == "accept_pos"):
            raise ValueError("a position belongs to accept_pos, and accept_pos needs one")
        return self
