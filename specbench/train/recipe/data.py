"""The [data] table of a recipe: prompts, and how the target answers them."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from specbench.core.request import GREEDY_BELOW

Text = Annotated[str, Field(min_length=1)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
Count = Annotated[int, Field(ge=1)]
Temperature = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Border(BaseModel):
    """A table of the file."""

    # strict: "5" is not 5 and true is not a number; a wrong type is a wrong file.
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class SelfPrompts(Border):
    """Prompts that the target writes itself, from the first words of requests.

    ``openers`` are dealt out in turn. ``max_tokens`` is the length of what is written behind one.
    """

    source: Literal["self"]
    name: Name
    count: Count
    openers: Annotated[list[str], Field(min_length=1)] = Field(default=[""])
    system: str = ""
    temperature: Temperature = 0.8
    top_p: Annotated[float, Field(gt=0, le=1)] = 0.95
    max_tokens: Count = 160


class LibraryPrompts(Border):
    """Prompts about the Python standard library of this machine."""

    source: Literal["library"]
    name: Name
    count: Count
    kind: Literal["code", "text"] = "code"


class SuitePrompts(Border):
    """Prompts of a suite: a name, a folder, a .jsonl file, or a public set that was fetched.

    Of a conversation of several turns the first is asked.
    """

    source: Literal["suite"]
    name: Name
    suite: Text
    count: Count | None = None
    split: Literal["test", "dev", "all"] = "all"


PromptSource = Annotated[SelfPrompts | LibraryPrompts | SuitePrompts, Field(discriminator="source")]


class Data(Border):
    """The [data] table.

    ``temperatures`` are dealt out to the prompts in turn. ``answers`` is how often each prompt is
    answered, each time at the next temperature. An answer that begins to loop is cut there.
    ``exclude`` names suites, beside the measured ones and the dev split of ``validate.suites``,
    whose prompts are not trained on.
    ``held_out`` is the share of prompts that is kept for validation. ``batch`` is how many
    requests are decoded at a time; lengths are in tokens.
    """

    prompts: Annotated[list[PromptSource], Field(min_length=1)]
    exclude: list[Text] = Field(default_factory=list)
    temperatures: Annotated[list[Temperature], Field(min_length=1)] = Field(default=[0.0, 0.7, 1.0])
    answers: Count = 1
    max_prompt_tokens: Count = 512
    max_new_tokens: Count = 256
    batch: Count = 32
    held_out: Annotated[float, Field(gt=0, lt=1)] = 0.03
    seed: Annotated[int, Field(ge=0)] = 0

    @field_validator("prompts")
    @classmethod
    def _own_names(cls, prompts: list[PromptSource]) -> list[PromptSource]:
        names = [source.name for source in prompts]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"two of them have the name {twice!r}; give each its own")
        return prompts

    @model_validator(mode="after")
    def _no_answer_twice(self) -> Self:
        """Refuse a prompt that is answered greedily twice: both answers would be the same."""
        dealt = len(self.temperatures)
        for first in range(dealt):
            turns = [self.temperatures[(first + n) % dealt] for n in range(self.answers)]
            if sum(temperature < GREEDY_BELOW for temperature in turns) > 1:
                raise ValueError(
                    f"answers = {self.answers}: with temperatures = {self.temperatures} some "
                    "prompt is answered at temperature 0 twice, with the same words; write fewer "
                    "answers, or more temperatures above 0"
                )
        return self
