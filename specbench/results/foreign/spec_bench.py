"""Spec-Bench answer files (hemingkx/Spec-Bench, ``data/*/model_answer/*.jsonl``).

``accept_lengths`` holds what each forward of the loop appended to the answer, all turns after one
another: accepted drafts and one token of the target's own, also what lies behind the end. Loops
that draft before the prompt's first forward count that forward as a step; the others do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from specbench.catalog import nearest
from specbench.errors import UsageError
from specbench.results.foreign.bounds import extremes
from specbench.results.foreign.document import Amount, Count, Document, Foreign, parsed
from specbench.results.foreign.format import Asked, Format, Place, Reading, row
from specbench.results.foreign.imported import ImportedRow, Meaning
from specbench.results.schema import ResultError

PROMPT_FIRST = ("vanilla", "sps", "pld", "lookahead", "space")
"""Loops whose first entry of a turn is the forward of the prompt: no decode step."""
OWN_PREFILL = ("eagle", "eagle2", "eagle3", "medusa", "hydra", "rest")
"""Loops that run the prompt on its own first; every entry is a decode step."""
UNTIMED_PREFILL = ("rest",)
"""Loops whose wall_time begins behind the prompt's forward."""
CUTTING = ("lookahead",)
"""Loops that cut an answer to its limit once its entries are on record."""
METHODS = (*PROMPT_FIRST, *OWN_PREFILL)

FAILED = "ERROR"
"""What stands for the answer of a turn that raised; its other entries are the last turn's."""

LENGTHS, TIMES = "accept_lengths", "new_tokens, wall_time"
MEANINGS = (
    Meaning(
        LENGTHS,
        "tokens that each forward appended: accepted drafts and one of the target's own; tokens "
        "behind the end are inside; the first entry of a turn is the prompt's forward in "
        f"{', '.join(PROMPT_FIRST)}",
        "accept_length_uncut",
        "entries of the prompt's forward and the last one of each turn are left out, the rest is "
        "pooled; accept_length is bounded: the answer may end at any token of the last entry",
    ),
    Meaning(
        TIMES,
        "tokens appended in a turn, those behind the end too; seconds of the whole call, the "
        f"prompt's forward inside (not in {', '.join(UNTIMED_PREFILL)}); Spec-Bench averages "
        "the ratio over questions",
        "tokens_per_s_e2e",
        "from totals, bounded in the same way",
    ),
    Meaning(
        "decoding_steps",
        "steps of a turn, counted in another way by each loop: from 0, from 1, or tokens",
        how="it does not say the same of two methods; steps are counted from accept_lengths",
    ),
)


class Choice(Foreign):
    """One sample of a question's answers, turn by turn."""

    turns: list[str]
    new_tokens: list[Count]
    wall_time: list[Amount]
    accept_lengths: list[Count]
    decoding_steps: list[int] | None = None


class Answer(Foreign):
    """One line of the file."""

    question_id: int | str
    category: str
    choices: list[Choice]
    model_id: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """One request: what its forwards appended, and seconds."""

    category: str
    lengths: tuple[int, ...]
    seconds: float

    def decode(self, method: str) -> tuple[int, ...]:
        """The entries that are decode steps."""
        return self.lengths[1:] if method in PROMPT_FIRST else self.lengths

    def shortest(self, method: str) -> int:
        """Fewest tokens that the answer may have had: the others may lie behind its end."""
        if not self.lengths:
            return 0
        return sum(self.lengths[:-1]) + (method in PROMPT_FIRST)


def recognise(document: Document) -> bool:
    """Lines with a question and choices that hold accept lengths."""
    choices = document.objects[0].get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return (
        "question_id" in document.objects[0] and isinstance(first, dict) and "new_tokens" in first
    )


def read(document: Document, asked: Asked) -> Reading:
    """Accept length and speed, over all questions and by category."""
    answers = [
        parsed(Answer, one, f"{document.place}, line {number}")
        for number, one in enumerate(document.objects, 1)
    ]
    _refuse_twice(answers, document.place)
    reading = Reading()
    turns, failed = _turns(answers, asked, document.place)
    if not turns:
        raise ResultError(f"{document.place}: holds no finished answer", "see its turns")
    if failed:
        reading.notes.append(f"turns that failed ({FAILED}) and are left out: {failed}")
    method = _method(turns, asked)
    for category in ("", *_several(turns)):
        chosen = [turn for turn in turns if category in ("", turn.category)]
        place = Place(asked.arm, asked.suite or "", category)
        if method:
            reading.rows += _rows(chosen, place, method)
    if not method:
        reading.refuse(LENGTHS, UNSAID)
        reading.refuse(TIMES, UNSAID)
    elif method in UNTIMED_PREFILL:
        reading.refuse(TIMES, f"wall_time of {method} begins behind the prompt's forward")
    if any(choice.decoding_steps is not None for one in answers for choice in one.choices):
        reading.refuse("decoding_steps", MEANINGS[-1].how)
    reading.told(
        model_id=answers[0].model_id, method=method, questions=len(answers), answers=len(turns)
    )
    return reading


UNSAID = (
    "the file does not say whether the first entry of a turn is the prompt's forward: add "
    f"--method NAME, the loop that wrote it, one of {', '.join(METHODS)}"
)


def _method(turns: Sequence[Turn], asked: Asked) -> str:
    """The loop that wrote the file; one token per forward is plain decoding in any of them."""
    if asked.method is not None:
        if asked.method not in METHODS:
            raise UsageError(
                f"unknown method {asked.method!r}", nearest(asked.method, list(METHODS))
            )
        return asked.method
    plain = all(length == 1 for turn in turns for length in turn.lengths)
    return "vanilla" if plain else ""


def _refuse_twice(answers: Sequence[Answer], place: str) -> None:
    seen: set[int | str] = set()
    for number, answer in enumerate(answers, 1):
        if answer.question_id in seen:
            raise ResultError(
                f"{place}, line {number}: question {answer.question_id} is there twice",
                "an earlier attempt was continued in the same file: keep one line of each",
            )
        seen.add(answer.question_id)


def _turns(answers: Sequence[Answer], asked: Asked, place: str) -> tuple[list[Turn], int]:
    """All finished turns, and how many failed."""
    found, failed = [], 0
    for number, answer in enumerate(answers, 1):
        for choice in answer.choices:
            where = f"{place}, line {number}"
            parts = list(_cut(choice, asked.method in CUTTING, where))
            for text, lengths, seconds in zip(choice.turns, parts, choice.wall_time, strict=True):
                if text == FAILED:
                    failed += 1
                else:
                    found.append(Turn(answer.category, lengths, seconds))
    return found, failed


def _cut(choice: Choice, shortened: bool, place: str) -> Iterator[tuple[int, ...]]:
    """The entries of each turn, cut where they add up to its tokens.

    Args:
        shortened: answers were cut to the limit afterwards, so that a last entry may say more.
    """
    if len({len(choice.turns), len(choice.new_tokens), len(choice.wall_time)}) > 1:
        raise ResultError(
            f"{place}: turns, new_tokens and wall_time are of different lengths", WRITTEN
        )
    _require_tokens(choice, shortened, place)
    begin = 0
    for number, wanted in enumerate(choice.new_tokens, 1):
        end, held = begin, 0
        while held < wanted and end < len(choice.accept_lengths):
            held += choice.accept_lengths[end]
            end += 1
        if held < wanted or (held > wanted and not shortened):
            raise ResultError(
                f"{place}: no entry of accept_lengths ends with turn {number} ({wanted} tokens)",
                WRITTEN,
            )
        lengths = choice.accept_lengths[begin:end]
        if lengths:
            lengths[-1] -= held - wanted
        yield tuple(lengths)
        begin = end
    if begin < len(choice.accept_lengths):
        raise ResultError(f"{place}: accept_lengths go on behind the last turn", WRITTEN)


def _require_tokens(choice: Choice, shortened: bool, place: str) -> None:
    """Every entry holds a token, and all of them those of the answers."""
    total, tokens = sum(choice.accept_lengths), sum(choice.new_tokens)
    if total != tokens and not (shortened and total > tokens):
        raise ResultError(
            f"{place}: accept_lengths add up to {total}, new_tokens to {tokens}",
            "they leave the target's own token out: another definition, which cannot be cut into "
            "turns"
            if total + len(choice.accept_lengths) == tokens
            else WRITTEN,
        )
    if 0 in choice.accept_lengths:
        raise ResultError(f"{place}: an entry of accept_lengths is 0", WRITTEN)


WRITTEN = (
    "Spec-Bench's own loops write them so that they agree (lookahead cuts answers afterwards: "
    "--method lookahead); what wrote this file counts otherwise"
)


def _several(turns: Sequence[Turn]) -> list[str]:
    names = list(dict.fromkeys(turn.category for turn in turns))
    return names if len(names) > 1 else []


def _rows(turns: Sequence[Turn], place: Place, method: str) -> Iterator[ImportedRow]:
    decoded = [lengths for turn in turns if (lengths := turn.decode(method))]
    steps, inner = sum(map(len, decoded)), sum(len(lengths) - 1 for lengths in decoded)
    if inner:
        kept = sum(sum(lengths[:-1]) for lengths in decoded)
        yield row(place, "accept_length_uncut", kept / inner, inner, "decode steps", LENGTHS)
    if steps:
        low, high = extremes([_ends(lengths, method) for lengths in decoded])
        yield row(place, "accept_length", low, steps, "decode steps", LENGTHS, high=high)
    seconds = sum(turn.seconds for turn in turns)
    if seconds > 0 and method not in UNTIMED_PREFILL:
        tokens = sum(sum(turn.lengths) for turn in turns)
        fewest = sum(turn.shortest(method) for turn in turns)
        low, high = fewest / seconds, tokens / seconds
        yield row(place, "tokens_per_s_e2e", low, len(turns), "answers", TIMES, high=high)


def _ends(lengths: Sequence[int], method: str) -> list[tuple[int, int]]:
    """Tokens and steps of a turn, for each place where its answer may have ended.

    A loop that runs the prompt first appends a step's own token with the next step: where that
    token was the end, or the last one allowed, our engines would not have taken the last step.
    """
    total, steps, last = sum(lengths), len(lengths), lengths[-1]
    ends = [(total, steps), (total - last + 1, steps)]
    if method in OWN_PREFILL and steps > 1:
        ends += [(total - last, steps - 1), (total - last - 1, steps - 1)]
    return ends


FORMAT = Format(
    "spec-bench",
    "Spec-Bench",
    "answer file, *.jsonl",
    "hemingkx/Spec-Bench, evaluation/eval.py and the loops beside it",
    MEANINGS,
    recognise,
    read,
)
