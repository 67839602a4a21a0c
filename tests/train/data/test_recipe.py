"""The [data] table: what a wrong key, type or value is told."""

import tomllib

import pytest
from pydantic import ValidationError

from specbench.train.recipe.data import Data, LibraryPrompts, SelfPrompts, SuitePrompts

WHOLE = """
temperatures = [0, 0.7]
max_prompt_tokens = 400
batch = 8
exclude = ["mine.jsonl"]

[[prompts]]
source = "self"
name = "chat"
count = 2
openers = ["", "Why"]

[[prompts]]
source = "library"
name = "lib"
count = 1
kind = "text"

[[prompts]]
source = "suite"
name = "s"
suite = "mt-bench"
"""
LIBRARY = {"source": "library", "name": "lib", "count": 1}


def findings(**table):
    with pytest.raises(ValidationError) as refused:
        Data.model_validate({"prompts": [LIBRARY], **table})
    return [(".".join(map(str, e["loc"])), e["msg"]) for e in refused.value.errors()]


def test_a_whole_table():
    data = Data.model_validate(tomllib.loads(WHOLE))
    written, library, suite = data.prompts
    assert isinstance(written, SelfPrompts)
    assert (written.temperature, written.top_p, written.system) == (0.8, 0.95, "")
    assert isinstance(library, LibraryPrompts)
    assert isinstance(suite, SuitePrompts)
    assert (suite.count, suite.split) == (None, "all")
    assert data.temperatures == [0.0, 0.7]
    assert (data.answers, data.max_new_tokens, data.held_out, data.seed) == (1, 256, 0.03, 0)


@pytest.mark.parametrize(
    ("table", "place", "says"),
    [
        ({"prompt": []}, "prompt", "Extra inputs are not permitted"),
        ({"prompts": []}, "prompts", "at least 1 item"),
        ({"batch": "8"}, "batch", "valid integer"),
        ({"batch": True}, "batch", "valid integer"),
        ({"batch": 0}, "batch", "greater than or equal to 1"),
        ({"held_out": 1.0}, "held_out", "less than 1"),
        ({"temperatures": []}, "temperatures", "at least 1 item"),
        ({"temperatures": [0.0, -1.0]}, "temperatures.1", "greater than or equal to 0"),
        ({"temperatures": [float("inf")]}, "temperatures.0", "finite number"),
        ({"temperatures": 0.7}, "temperatures", "valid list"),
        ({"exclude": [""]}, "exclude.0", "at least 1 character"),
        ({"prompts": [{**LIBRARY, "kind": "prose"}]}, "prompts.0.library.kind", "'code' or 'text'"),
        ({"prompts": [{**LIBRARY, "opener": "x"}]}, "prompts.0.library.opener", "Extra inputs"),
        ({"prompts": [{"source": "self", "name": "a"}]}, "prompts.0.self.count", "required"),
        ({"prompts": [{**LIBRARY, "source": "own"}]}, "prompts.0", "'self', 'library', 'suite'"),
        ({"prompts": [{**LIBRARY, "name": "a/b"}]}, "prompts.0.library.name", "match pattern"),
        ({"prompts": [LIBRARY, LIBRARY]}, "prompts", "two of them have the name 'lib'"),
        ({"answers": 2, "temperatures": [0.0]}, "", "at temperature 0 twice"),
        ({"answers": 4}, "", "answers = 4: with temperatures = [0.0, 0.7, 1.0]"),
    ],
)
def test_wrong_values_name_key_and_reason(table, place, says):
    ((found, message),) = findings(**table)
    assert found == place
    assert says in message


@pytest.mark.parametrize(
    ("answers", "temperatures"), [(3, [0.0, 0.7, 1.0]), (9, [0.7]), (2, [0.0, 0.7, 0.0, 1.0])]
)
def test_answers_that_differ(answers, temperatures):
    table = {"prompts": [LIBRARY], "answers": answers, "temperatures": temperatures}
    assert Data.model_validate(table).answers == answers
