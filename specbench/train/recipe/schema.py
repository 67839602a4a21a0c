"""The shape of recipe.toml: a wrong file gives the file, key, value and what to write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, model_validator

from specbench.errors import UsageError
from specbench.train.recipe.data import Border, Count, Data, Text
from specbench.train.recipe.findings import explain, misplaced
from specbench.train.recipe.methods import DEFAULTS, FAMILIES, over

SCHEMA_VERSION = 1

Share = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Beta = Annotated[float, Field(ge=0, lt=1)]
DataType = Literal["float32", "bfloat16", "float16"]
LossName = Literal[
    "forward_kl",
    "token_cross_entropy",
    "reverse_kl",
    "jensen_shannon",
    "total_variation",
    "negative_log_acceptance",
]
MethodName = Literal[
    "medusa1", "medusa2", "blockwise", "eagle1", "eagle3", "mtp", "distill", "bigram"
]


class Target(Border):
    """The [target] table: the model that is drafted for."""

    model: Text
    revision: Text | None = None
    dtype: DataType = "float32"
    device: Text = "cpu"
    template: str | None = None


class Capture(Border):
    """The [capture] table: how hidden states are stored."""

    dtype: DataType = "bfloat16"


class Head(Border):
    """The [head] table: the network that is trained.

    ``start`` names a head to start from, for example the target's own MTP module, or a draft model
    to distil into; None makes a new one. ``draft_vocabulary`` counts tokens, chosen by frequency in
    the target's own answers. ``input_norm`` and ``final_norm`` are the norms that EAGLE-1 dropped.
    ``heads`` and ``blocks`` are of Medusa, ``layers`` of a distilled draft model, which takes every
    n-th of the target. ``dtype`` is that of the written files; it is trained in float32. ``full``
    writes the output projection along, for programs that do not take the target's.
    """

    start: Text | None = None
    layout: Text | None = None
    dtype: DataType = "bfloat16"
    full: bool = False
    draft_vocabulary: Count | None = None
    heads: Count = 4
    blocks: Count = 1
    layers: Count = 4
    input_norm: bool = False
    final_norm: bool = False
    norm_before_fc: bool = False
    fc_norm: bool = False


class Train(Border):
    """The [train] table. Keys that a recipe leaves out take the method's own defaults.

    ``clip_norm`` and ``clip_value`` are off at 0, ``patience`` too. ``precision`` is that of matrix
    products; weights stay in float32. ``warmup`` is a share of all steps.
    """

    epochs: Positive = 3.0
    batch_tokens: Count = 2048
    accumulate: Count = 1
    optimiser: Literal["adamw", "muon"] = "adamw"
    learning_rate: Positive = 1e-3
    betas: Annotated[list[Beta], Field(min_length=2, max_length=2)] = Field(default=[0.9, 0.95])
    weight_decay: NotNegative = 0.0
    warmup: Share = 0.03
    schedule: Literal["cosine", "linear", "constant"] = "cosine"
    clip_norm: NotNegative = 0.5
    clip_value: NotNegative = 0.0
    precision: Literal["float32", "bfloat16"] = "float32"
    steps: Count = 3
    decay: Positive = 0.8
    normalised: bool = False
    loss: LossName = "forward_kl"
    loss_on: Literal["answers", "all"] = "answers"
    feature_weight: NotNegative = 0.0
    law_weight: NotNegative = 1.0
    noise: NotNegative = 0.0
    temperature: Positive = 1.0
    on_policy: Share = 0.0
    freeze_embeddings: bool = False
    rank: Count = 16
    backbone_learning_rate: Positive = 1e-4
    head_weight: NotNegative = 0.2
    warm_epochs: NotNegative = 1.0
    validations: Count = 6
    patience: Annotated[int, Field(ge=0)] = 0
    seed: Annotated[int, Field(ge=0)] = 0


class Validate(Border):
    """The [validate] table: held-out answers that the drafter of inference drafts along.

    ``options`` are the drafter's. ``suites`` are for the card: prompts of their dev split are
    answered and drafted along when training is over.
    """

    conversations: Count = 24
    k: Count | None = None
    options: dict[str, Any] = Field(default_factory=dict)
    suites: list[Text] = Field(default=["code", "chat", "translation"])
    limit: Count = 6
    max_new_tokens: Count = 96


class Recipe(Border):
    """recipe.toml."""

    schema_version: Literal[1]
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]*$")]
    title: str = ""
    method: MethodName
    target: Target
    data: Data
    capture: Capture = Field(default_factory=Capture)
    head: Head = Field(default_factory=Head)
    train: Train = Field(default_factory=Train)
    validate_: Validate = Field(default_factory=Validate, alias="validate")

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, data: Any) -> Any:
        """The method's own defaults under what the recipe says."""
        method = data.get("method") if isinstance(data, Mapping) else None
        own = DEFAULTS.get(method) if isinstance(method, str) else None
        return data if own is None else over(own, data)

    @property
    def family(self) -> str:
        """Of ``models.heads.configs.FAMILIES``, or ``model`` for a draft model."""
        return FAMILIES[self.method]


def recipe_of(data: Mapping[str, Any], source: str) -> Recipe:
    """Check a recipe that is read already; ``source`` names it in messages. Raises UsageError."""
    version = data.get("schema_version")
    if version != SCHEMA_VERSION or isinstance(version, bool):
        found = "is missing" if version is None else f"= {version!r} is not read here"
        raise UsageError(
            f"{source}: schema_version {found}", f"write schema_version = {SCHEMA_VERSION}"
        )
    try:
        recipe = Recipe.model_validate(dict(data))
    except ValidationError as error:
        lines = [*explain(error, Recipe), *misplaced(data)]
        raise UsageError("\n".join(f"{source}: {line}" for line in lines)) from error
    if lines := misplaced(data):
        raise UsageError("\n".join(f"{source}: {line}" for line in lines))
    return recipe
