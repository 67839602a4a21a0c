"""Prompts, recipes and targets of the tests in this folder."""

from __future__ import annotations

import pytest

from specbench.core.trace import Finish
from specbench.train.data.asked import Asked
from specbench.train.recipe.data import Data
from tests.train.data.answering import FakeTarget


@pytest.fixture
def recipe():
    """A [data] table from sources and other keys."""

    def build(*prompts, **keys):
        sources = prompts or ({"source": "library", "name": "lib", "count": 1},)
        return Data.model_validate({"prompts": list(sources), **keys})

    return build


@pytest.fixture
def target():
    """A target that says its request's name and ends."""
    return FakeTarget(lambda request: (f"about {request.key.item}, at length", Finish.EOS))


@pytest.fixture
def prompts():
    """Prompts "q-0", "q-1", ... that differ in a word."""

    def build(count):
        asked = [({"role": "user", "content": f"question {n}"},) for n in range(count)]
        return [Asked(f"q-{n}", "q", messages) for n, messages in enumerate(asked)]

    return build


@pytest.fixture
def told():
    """A progress function; ``told.calls`` is what it was told."""

    def tell(*what):
        tell.calls.append(what)

    tell.calls = []
    return tell
