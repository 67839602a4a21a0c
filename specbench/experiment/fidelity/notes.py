"""What a replay could use, and how far its numbers are from the run's own."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from specbench.core.request import GREEDY_BELOW
from specbench.core.trace import Trace
from specbench.experiment.emitted import NOT_CANONICAL
from specbench.experiment.reference import Replayed


def evidence_note(traces: Iterable[Trace]) -> str:
    """What a run can be judged by without a reference."""
    sampled = False
    for trace in traces:
        evidence = trace.evidence
        if any(value is not None for value in (*evidence.log_target, *evidence.margin)):
            return "evidence: the rows that the run itself decided by"
        sampled = sampled or trace.key.temperature >= GREEDY_BELOW
    if not sampled:
        return "evidence: outputs at temperature 0 beside plain's; the run recorded no rows"
    return (
        "no evidence in this run: give --reference MODEL or server:URL, or --outputs with "
        "--repeats 4 or more"
    )


def replay_notes(replayed: Replayed) -> list[str]:
    """Lines for the reader."""
    same = {
        True: "the run's weights",
        False: "OTHER weights than the run's",
        None: "not known whether these are the run's weights",
    }
    notes = [f"evidence: {len(replayed.traces)} outputs replayed; {same[replayed.same_weights]}"]
    notes += [f"{count} {reason}" for reason, count in replayed.counts().items()]
    notes += [*_prompt_notes(replayed), *_token_notes(replayed), *_selection_notes(replayed)]
    for (arm, temperature), found in replayed.agreement.items():
        if found.mean is not None and found.largest is not None:
            text = f"T={temperature:g} {arm}: log-probabilities differ from the run's own by "
            text += f"{found.mean:.2g} on average, {found.largest:.2g} at most"
            if found.kl is not None:
                text += f"; KL {found.kl:.1e} nats per token"
            notes.append(text)
    return notes


def _prompt_notes(replayed: Replayed) -> list[str]:
    lengths = replayed.prompts.values()
    equal = sum(length.server == length.reference for length in lengths)
    if not equal:
        return []
    return [
        f"{equal} of {len(lengths)} prompts have as many tokens on the server as for the reference"
    ]


def _token_notes(replayed: Replayed) -> list[str]:
    """Where tokens came from, if not from the record."""
    emitted, notes = replayed.emitted.values(), []
    again = [one for one in emitted if one.retokenised]
    if again:
        uncounted = sum(not one.counted for one in again)
        text = f"{len(again)} outputs had no token ids: their text was tokenised by the reference"
        text += f", {uncounted} without a count to hold it against" if uncounted else ""
        text += "; tokens that were really written otherwise look less likely than they were"
        notes.append(text)
    ends = sum(bool(one.ends) for one in emitted)
    several = sum(len(one.ends) > 1 for one in emitted)
    if ends:
        text = f"{ends} outputs ended with a token that was not shown"
        text += "; the likeliest of several ends stands for it" if several else ""
        notes.append(text)
    return notes


def _selection_notes(replayed: Replayed) -> list[str]:
    """What leaving out records by their tokens is worth, as evidence.

    Outputs that are kept follow the target's law given that they are kept, which is at most
    1 / (1 - share left out) times the law itself: so much may a likelihood ratio gain per output.
    """
    kept = Counter((r.arm, r.key.temperature) for r in replayed.traces)
    reason = f"not replayed: {NOT_CANONICAL}"
    left = Counter(
        (r.arm, r.key.temperature)
        for r, why in replayed.reasons.items()
        if why == reason and r.key.temperature >= GREEDY_BELOW
    )
    notes = []
    for (arm, temperature), count in left.items():
        here = kept[arm, temperature]
        if here:
            nats = here * -math.log(here / (here + count))
            notes.append(
                f"T={temperature:g} {arm}: {count} of {here + count} outputs are left out for "
                f"their tokens, which may add up to {nats:.2g} nats of evidence to a lossless arm"
            )
    return notes
