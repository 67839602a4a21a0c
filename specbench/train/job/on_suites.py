"""How a head drafts on the suites: greedy answers to dev prompts, drafted along as at inference.

The dev split is not what `specbench run` measures by default, and ``data.excluded`` keeps all of it
out of what is trained on.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from specbench.core.request import Sampling
from specbench.suites.loader import load_suite, select
from specbench.suites.templates import messages_for_turn
from specbench.train.data.answers import before_loop
from specbench.train.data.asked import Answered
from specbench.train.data.target_answers import TargetAnswers, refuse_failed, request_of
from specbench.train.job.validate import HeldOut
from specbench.train.recipe.schema import Validate

SHORTEST = 2
"""Tokens of an answer that has a decode step at all."""


def on_suites(
    target: TargetAnswers,
    how: Validate,
    drafter: str,
    k: int,
    folder: Path,
    tell: Callable[[str, int, int], None],
) -> dict[str, dict[str, object]]:
    """Suite -> accept length, alphas by depth, and on how many prompts and tokens.

    Answers that loop are cut where they begin to: loops flatter every draft. A suite without an
    answer of two tokens is left out.

    Raises:
        SpecbenchError: the network is broken, or the target failed.
    """
    found: dict[str, dict[str, object]] = {}
    for number, name in enumerate(how.suites):
        tell("suites", number, len(how.suites))
        answers = _answers(target, name, how)
        if not answers:
            continue
        held = HeldOut(lambda _: target.engine.lend(), answers, drafter, k, how.options)
        (drafted,) = held.of_folder(folder).values()
        found[name] = {
            "accept_length": round(drafted.accept_length, 4),
            "alphas": [round(alpha, 4) for alpha in drafted.alphas],
            "prompts": len(answers),
            "tokens": sum(len(one.answer) for one in answers),
            "k": k,
        }
    tell("suites", len(how.suites), len(how.suites))
    return found


def _answers(target: TargetAnswers, name: str, how: Validate) -> list[Answered]:
    requests = {}
    for prompt in select(load_suite(name), split="dev", limit=how.limit):
        ids = target.render(messages_for_turn(prompt, 0, ())).token_ids
        requests[prompt.id] = request_of(
            prompt.id, ids, Sampling(), how.max_new_tokens, target.stops(), 0
        )
    answers = []
    for trace in target.run([*requests.values()], how.limit, "validate.limit"):
        refuse_failed(trace, f"answering suite {name}:", "validate.limit")
        kept = tuple(trace.output_ids[: before_loop(trace.output_ids)])
        if len(kept) >= SHORTEST:
            ids = requests[trace.key.item].token_ids
            answers.append(Answered(trace.key.item, name, ids, kept, 0.0, str(trace.finish)))
    return answers
