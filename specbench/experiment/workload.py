"""The [target] and [workload] tables: what is decoded, and under which settings."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from specbench.catalog import names
from specbench.core.request import Sampling
from specbench.models.quant.settings import Quant, quant_of

Options = dict[str, object]


class Border(BaseModel):
    """A table of the file."""

    # strict: "5" is not 5 and true is not a number; a wrong type is a wrong file.
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Target(Border):
    """The [target] table: the model that every arm decodes, and how it is loaded."""

    model: Annotated[str, Field(min_length=1)]
    revision: str | None = None
    dtype: Literal["float32", "bfloat16", "float16", "as_stored"] = "float32"
    device: Annotated[str, Field(min_length=1)] = "cpu"
    attention: Literal["sdpa", "flashinfer"] = "sdpa"
    sampler: Literal["torch", "flashinfer"] = "torch"
    tensor_parallel: Annotated[int, Field(ge=1)] = 1
    graphs: bool = False
    compile: bool = False
    schedule: Literal["in-order", "overlapped"] = "in-order"
    prepack: bool = True
    quant: Literal["none", "int8", "int4", "int4-g16", "int4-g32", "int4-g64", "int4-g128"] = "none"
    quant_backend: Literal["torch", "torchao", "bitsandbytes"] = "torch"
    quant_head: bool = False
    context: Annotated[int, Field(ge=2)] | None = None
    template: str | None = None
    options: Options = Field(default_factory=dict)

    @property
    def quantised(self) -> Quant:
        """How the linear layers are stored; UsageError where the keys contradict each other."""
        return quant_of(self.model_dump(), "target")


class Workload(Border):
    """The [workload] table: which prompts, sampled how, how often and how many at a time."""

    suites: Annotated[list[str], Field(min_length=1)]
    split: Literal["test", "dev", "all"] = "test"
    limit: Annotated[int, Field(ge=1)] | None = None
    categories: list[str] = Field(default_factory=list)
    temperatures: Annotated[list[float], Field(min_length=1)] = Field(default=[0.0])
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    top_k: Annotated[int, Field(ge=0)] = 0
    min_p: Annotated[float, Field(ge=0, le=1)] = 0.0
    repetition_penalty: Annotated[float, Field(gt=0)] = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    max_new_tokens: Annotated[int, Field(ge=1)] = 128
    repeats: Annotated[int, Field(ge=1)] = 1
    concurrency: Annotated[list[Annotated[int, Field(ge=1)]], Field(min_length=1)] = Field(
        default=[1]
    )
    history: Literal["plain", "own", "fixed"] = "plain"
    system_policy: Literal["merge-into-user", "drop", "fail"] = "merge-into-user"
    seed: Annotated[int, Field(ge=0)] = 1
    warmup: Annotated[int, Field(ge=1)] = 1
    stop: list[str] = Field(default_factory=list)
    arrival: Literal["closed", "poisson", "burst"] = "closed"
    rate: Annotated[float, Field(gt=0)] | None = None

    @property
    def arrival_name(self) -> str:
        """The arrival pattern as the identity names it."""
        if self.arrival == "closed":
            return "closed loop"
        return f"poisson {self.rate:g}/s" if self.arrival == "poisson" else self.arrival

    def split_of(self, suite: str) -> str:
        """The split in which a suite, as the experiment names it, is used.

        Where none was given, catalogued suites are cut: their ``dev`` part is for tuning. A
        reader's own prompts and public sets are used whole.
        """
        if "split" in self.model_fields_set or suite in names("suites"):
            return self.split
        return "all"

    @field_validator("suites", "temperatures", "concurrency")
    @classmethod
    def _different(cls, values: list[object]) -> list[object]:
        if len(set(values)) != len(values):
            raise ValueError("a value occurs twice")
        return values

    @field_validator("system_policy", mode="before")
    @classmethod
    def _short_name(cls, value: object) -> object:
        return "merge-into-user" if value == "merge" else value

    @field_validator("temperatures")
    @classmethod
    def _temperatures(cls, values: list[float]) -> list[float]:
        for value in values:
            Sampling(temperature=value)
        return values
