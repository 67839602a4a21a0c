"""Heads that draft for other weights than they were trained for, told before measuring."""

from __future__ import annotations

from collections.abc import Mapping

from specbench.core.manifest import UNKNOWN
from specbench.models.heads.made_for import MadeFor, other_target


def other_targets(facts: Mapping[str, object]) -> list[str]:
    """A line per such head.

    Args:
        facts: what an engine describes: ``target``, and ``drafts`` by arm.
    """
    target, drafts = facts.get("target"), facts.get("drafts")
    if not isinstance(target, Mapping) or not isinstance(drafts, Mapping):
        return []
    digest = str(target.get("weight_hash") or UNKNOWN)
    if digest == UNKNOWN:
        return []
    lines = []
    for arm, loaded in drafts.items():
        for draft in loaded:
            said = draft.get("made_for")
            made = MadeFor(**said) if isinstance(said, Mapping) else None
            if told := other_target(made, str(target.get("name")), digest):
                lines.append(f"warning: arm {arm}: {draft.get('name')} was {told}")
    return lines
