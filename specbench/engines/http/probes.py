"""Whether a server does what it is asked about chance, tried out before anything is measured.

Every question is put five times: at temperature 1 with a seed, with the same seed, and with
another one; then twice at temperature 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from specbench.core.request import Limits, Request, RequestKey, Sampling, Stops
from specbench.core.trace import Trace

TOKENS = 8

QUESTIONS = (
    "Invent a name for a ship, a horse and a star.",
    "Write down twelve random words.",
    "Tell me something surprising about a place of your choice.",
)

SEEDS = (1_234_567, 1_234_567, 7_654_321)

Send = Callable[[Sequence[Request]], Sequence[Trace]]
"""Sends requests one after the other and gives their traces in the same order."""

Prompt = tuple[tuple[int, ...], tuple[Mapping[str, object], ...]]
"""Token ids (empty without a tokenizer) and messages of one question."""


@dataclass(frozen=True, slots=True)
class Answers:
    """What one question got, as texts."""

    first: str
    again: str
    other: str
    greedy: str
    greedy_again: str


def probe(prompts: Sequence[Prompt], stops: Stops, send: Send) -> dict[str, str]:
    """What the server does with temperature and seed, in plain words.

    Returns:
        ``temperature``: ``honoured`` or ``ignored`` (every answer at temperature 1 was the one of
        temperature 0); ``seed``: ``honoured``, ``ignored`` or ``not tested``; ``greedy``:
        ``repeatable`` or ``varies``; ``certainty``: how surprising this would be by chance.
        ``failed`` alone, with the reason, where a request failed.
    """
    answers = []
    for index, prompt in enumerate(prompts):
        traces = send(_requests(index, prompt, stops))
        if error := next((trace.error for trace in traces if not trace.ok), ""):
            return {"failed": error}
        answers.append(Answers(*(_said(trace) for trace in traces)))
    return judge(answers)


def judge(answers: Sequence[Answers]) -> dict[str, str]:
    """See ``probe``."""
    stuck = all({a.first, a.again, a.other} == {a.greedy} for a in answers)
    greedy = all(a.greedy == a.greedy_again for a in answers)
    repeated = sum(1 for a in answers if a.first == a.again)
    differing = sum(1 for a in answers if a.first != a.other)
    if stuck or not differing:
        seed = "not tested"
    else:
        seed = "honoured" if repeated == len(answers) else "ignored"
    chance = 0.5 ** (2 * len(answers))
    return {
        "temperature": "ignored" if stuck else "honoured",
        "seed": seed,
        "greedy": "repeatable" if greedy else "varies",
        "certainty": (
            f"{len(answers)} questions, {TOKENS} tokens; same seed repeated {repeated}, another "
            f"seed changed {differing}; were a sampled answer the greedy one half of the time, all "
            f"would be by chance {chance:.1g}"
        ),
    }


def _requests(index: int, prompt: Prompt, stops: Stops) -> list[Request]:
    settings = [(1.0, seed) for seed in SEEDS] + [(0.0, SEEDS[0]), (0.0, SEEDS[2])]
    ids, messages = prompt
    return [
        Request(
            key=RequestKey("probe", str(index), 0, temperature, repeat),
            token_ids=ids,
            sampling=Sampling(temperature=temperature),
            limits=Limits(TOKENS),
            stops=stops,
            seed=seed,
            messages=messages,
        )
        for repeat, (temperature, seed) in enumerate(settings)
    ]


def _said(trace: Trace) -> str:
    # Ids where they are shown: different tokens may spell the same text.
    return ",".join(map(str, trace.output_ids)) or trace.text
