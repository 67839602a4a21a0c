"""Every key of a recipe is described, and nothing else."""

from __future__ import annotations

from specbench.train.recipe.meanings import MEANINGS
from specbench.train.recipe.schema import Recipe


def test_every_key_has_a_meaning():
    tables = {
        field.alias or name: field.annotation
        for name, field in Recipe.model_fields.items()
        if hasattr(field.annotation, "model_fields")
    }
    keys = {f"{table}.{name}" for table, kind in tables.items() for name in kind.model_fields}
    assert set(MEANINGS) == keys - {"data.prompts"}
