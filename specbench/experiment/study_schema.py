"""The [study] table: one key of the experiment that takes several values, a run for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field, field_validator

from specbench.experiment.workload import Border

LIFTED: Mapping[str, tuple[str, ...]] = {
    "target.quant": ("quant",),
    "target.dtype": ("dtype",),
    "target.model": ("target", "target_revision", "weight_hash", "template_hash"),
    "target.template": ("template_hash",),
    "workload.max_new_tokens": ("max_new_tokens",),
    "workload.system_policy": ("system_policy",),
    "workload.top_p": ("sampling.top_p",),
    "workload.top_k": ("sampling.top_k",),
    "workload.min_p": ("sampling.min_p",),
    "workload.repetition_penalty": ("sampling.repetition_penalty",),
}
"""Keys that a study may vary -> what of a run's identity follows them.

What decides which prompts are asked, how often and how many at a time is not among them: runs are
paired by prompt.
"""


class Study(Border):
    """A key by its place in the file, and its values; the others are held against the first."""

    key: str
    values: Annotated[list[str | int | float | bool], Field(min_length=2)]

    @field_validator("key")
    @classmethod
    def _can_vary(cls, key: str) -> str:
        if key not in LIFTED:
            raise ValueError(f"a study cannot vary it; {', '.join(LIFTED)} can be varied")
        return key

    @property
    def table(self) -> str:
        """The table that the key is in."""
        return self.key.partition(".")[0]

    @property
    def name(self) -> str:
        """The key inside its table."""
        return self.key.partition(".")[2]

    def held(self, table: object) -> str:
        """The value of the key in a checked table, as text."""
        return str(getattr(table, self.name))
