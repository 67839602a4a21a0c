"""Which prompts tune (dev) and which report (test): fixed by name, never by file order."""

from __future__ import annotations

from hashlib import sha256
from typing import Literal

Split = Literal["dev", "test"]

DEV_PERCENT = 30


def split_of(suite_name: str, prompt_id: str) -> Split:
    """The split of a prompt; about 30 % are ``dev``.

    The first 64 bits of SHA-256 of ``suite/id`` are compared in integers, so that a prompt keeps
    its split on every machine and when the suite grows.
    """
    head = int.from_bytes(sha256(f"{suite_name}/{prompt_id}".encode()).digest()[:8], "big")
    return "dev" if head * 100 < DEV_PERCENT << 64 else "test"
