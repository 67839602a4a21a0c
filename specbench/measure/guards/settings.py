"""Settings and prompts that a server changed (cases E6 and H5)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from specbench.core.trace import Trace
from specbench.measure.guards.guard import Around, Guard
from specbench.metrics.timeline import finished
from specbench.metrics.units import Pair

PROMPT_COUNT, PROMPT_IDS = "prompt_tokens", "prompt_ids"
"""Names under which a trace's ``effective`` tells of another prompt than the one that was sent."""


def settings_guards(
    arm: Sequence[Trace], joined: Sequence[Pair], around: Around
) -> Iterator[Guard]:
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
    yield from _other_prompts(kept, joined)


def _other_prompts(kept: Sequence[Trace], joined: Sequence[Pair]) -> Iterator[Guard]:
    """Where servers render prompts only their counts are known: those of one prompt are equal."""
    other = [trace for trace in kept if {PROMPT_COUNT, PROMPT_IDS} & set(trace.effective)]
    unequal = [pair for pair in joined if _unequal(pair)]
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
    elif unequal:
        pair = unequal[0]
        yield Guard(
            "prompt_changed",
            f"the server counts other prompts than plain's on {len(unequal)} of {len(joined)} "
            f"pairs, first {pair.arm.key.item}: {pair.arm.prompt_tokens} tokens against "
            f"{pair.plain.prompt_tokens}",
            "look for another template or tokenizer, or a second BOS, on one of the servers",
        )


def _unequal(pair: Pair) -> bool:
    """Another count of one prompt; 0 is a prompt that nobody counted."""
    arm, plain = pair.arm, pair.plain
    counted = arm.prompt_tokens and plain.prompt_tokens
    same = arm.prompt_hash == plain.prompt_hash
    return bool(counted) and same and arm.prompt_tokens != plain.prompt_tokens


def _in_words(kept: Sequence[Trace], name: str, around: Around) -> str:
    held = [trace for trace in kept if name in trace.effective]
    first = held[0]
    known = {"temperature": first.key.temperature, "seed": first.seed, **around.requested}
    asked = f"{known[name]} requested, " if name in known else ""
    return f"{name}: {asked}{first.effective[name]} in effect ({len(held)} requests)"
