"""Hand-made answers: only what a test says differs from a valid one."""

from __future__ import annotations

from specbench.core.request import RequestKey
from specbench.core.suite import Scoring
from specbench.quality.answers import Answer

JSON = Scoring("json", required=("a",))
CODE = Scoring("python", entry_point="f", tests="assert f(1) == 2\n")
HEADER = "Write the body.\n\n```python\ndef f(x):\n```"


def translation(language: str = "en") -> Scoring:
    return Scoring("translation", source_language="de", target_language=language, source="Satz")


def answer(
    text: str,
    scoring: Scoring = JSON,
    *,
    item: str = "a",
    arm: str = "mtp",
    reference: str | None = None,
    turn: int = 0,
    temperature: float = 0.0,
    repeat: int = 0,
) -> Answer:
    key = RequestKey("suite", item, turn, temperature, repeat)
    return Answer(key, arm, text, scoring, reference, (HEADER,))
