"""Settings and prompts that a server changed (cases E6 and H5)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from specbench.core.trace import Trace
from specbench.measure.guards.guard import Around, Guard
from specbench.metrics.timeline import finished

PROMPT_COUNT, PROMPT_IDS = "prompt_tokens", "prompt_ids"
"""Names under which a trace's ``effective`` tells of another prompt than the one that was sent."""


def settings_guards(arm: Sequence[Trace], around: Around) -> Iterator[Guard]:
    """What requests say was in effect, where it is not what they asked for."""
    kept = [trace for trace in finished(arm) if trace.effective]
    names = dict.fromkeys(name for trace in kept for name in trace.effective)
    changed = [name for name in names if name not in (PROMPT_COUNT, PROMPT_IDS)]
    if changed:
        yield Guard(
            "settings_changed",
            "; ".join(_in_words(kept, name, around) for name in changed),
            "the server's own defaults may win over the request; change them where it is started",
        )
    other = [trace for trace in kept if {PROMPT_COUNT, PROMPT_IDS} & set(trace.effective)]
    if other:
        first = other[0]
        counted = first.effective.get(PROMPT_COUNT)
        seen = f"ids {first.effective.get(PROMPT_IDS)}" if counted is None else f"{counted} tokens"
        yield Guard(
            "prompt_changed",
            f"the server saw another prompt on {len(other)} requests, first {first.key.item}: "
            f"{seen} for the {first.prompt_tokens} that were sent",
            "look for a second BOS, or for another template or tokenizer on the server",
        )


def _in_words(kept: Sequence[Trace], name: str, around: Around) -> str:
    held = [trace for trace in kept if name in trace.effective]
    first = held[0]
    known = {"temperature": first.key.temperature, "seed": first.seed, **around.requested}
    asked = f"{known[name]} requested, " if name in known else ""
    return f"{name}: {asked}{first.effective[name]} in effect ({len(held)} requests)"
