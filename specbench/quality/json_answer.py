"""Does an answer hold the JSON object that was asked for?

JSON as in RFC 8259: no NaN, no infinities, no trailing commas, no comments, no control characters
inside strings. A fence or prose around the object is tolerated and reported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from specbench.quality.answers import until_stop

_START = re.compile(r'\{\s*["}]')
"""Where an object starts. A brace in prose, as in "{name}", is none."""

_FENCE = re.compile(r"^[ \t]*(?:```|~~~)[ \t]*\w*[ \t]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class JsonVerdict:
    """Whether an answer is right.

    Attributes:
        valid: one object, strict JSON, every required key at its top level.
        surrounded: there is text besides the object and a code fence.
        reason: why it is not valid; empty where it is.
    """

    valid: bool
    surrounded: bool
    reason: str = ""


def judge(text: str, required: Sequence[str]) -> JsonVerdict:
    """Look for exactly one JSON object with these keys in an answer.

    The first place where an object starts has to parse: an object inside a broken or cut one is
    never taken for the answer.
    """
    text = until_stop(text)
    start = _START.search(text)
    if start is None:
        return JsonVerdict(False, bool(text.strip()), "no JSON object")
    try:
        found, end = _DECODER.raw_decode(text, start.start())
    except (ValueError, RecursionError) as error:
        return JsonVerdict(False, True, f"not JSON: {error}")
    before, after = (_FENCE.sub("", part).strip() for part in (text[: start.start()], text[end:]))
    surrounded = bool(before or after)
    reason = ""
    if before.endswith("["):
        reason = "a list, not an object"
    elif _START.search(after):
        reason = "more than one JSON object"
    elif missing := [key for key in required if key not in found]:
        reason = f"without the key {', '.join(missing)}"
    return JsonVerdict(not reason, surrounded, reason)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)
