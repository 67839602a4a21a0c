"""Draft rows under a request's settings: the minimum length holds for them as for the target."""

from __future__ import annotations

import numpy as np
import pytest

from specbench.core.request import Stops
from specbench.decoding.shapes.shape import TreeShape
from specbench.drafters.draft_model import DraftModelDrafter
from specbench.drafters.draft_rows import DraftRows
from specbench.drafters.grow.static import Static
from specbench.verify.greedy import RULE as GREEDY
from specbench.verify.rejection import RULE as REJECTION
from tests.tables import TableModel, decode, random_table, table_draft
from tests.toys import request

pytestmark = pytest.mark.usefixtures("one_thread")

V, K, MINIMUM, COUNT, END = 7, 3, 11, 20, 2
TARGET = random_table(41, V)


def eager(tokens):
    """The target's logits, but for an end that is wanted more than anything."""
    line = list(TARGET(tokens))
    line[END] = 50.0
    return line


def choice(line, output):
    """First choice behind ``output``, its end forbidden below the minimum length."""
    return max((x for x in range(V) if x != END or output >= MINIMUM), key=lambda x: line[x])


def by_hand(prompt):
    """Committed tokens of every step at temperature 0, from the two tables alone."""
    output = [choice(TARGET(tuple(prompt)), 0)]
    steps = []
    while output[-1] != END or len(output) <= MINIMUM:
        if len(output) == COUNT:
            break
        room, taken = min(K, COUNT - len(output) - 1), []
        drafting = True
        while True:
            known = (*prompt, *output, *taken)
            done = len(output) + len(taken)
            right = choice(TARGET(known), done)
            drafted = drafting and len(taken) < room
            drafting = drafted and choice(eager(known), done) == right
            taken.append(right)
            if not drafting or (right == END and done >= MINIMUM):
                break
        output += taken
        steps.append(len(taken))
    return output, steps


def trees(pool):
    shape = TreeShape.from_paths([(0,), (0, 0), (0, 0, 0)])
    growth = Static(shape, DraftRows(V), True)
    return DraftModelDrafter(TableModel("draft", pool, eager), V, 64, growth=growth)


@pytest.mark.parametrize("drafter", [table_draft(eager, V), trees], ids=["chain", "static"])
def test_a_draft_that_wants_the_end_waits_for_the_minimum_length(drafter):
    asked = [request([s, 1], COUNT, stops=Stops((END,)), minimum=MINIMUM, seed=s) for s in range(6)]
    lengths = set()
    for row in decode(asked, TARGET, drafter, GREEDY, K):
        output, steps = by_hand(list(row.request.token_ids))
        assert row.trace.output_ids == output
        assert row.trace.steps.committed == steps
        # Up to the minimum the draft is the target: everything is accepted.
        assert steps[0] == steps[1] == K + 1
        lengths.update(steps)
    assert len(lengths) > 1


def softmax(line, output):
    weights = np.exp(np.array(line, dtype=np.float64) - max(line))
    weights[END] *= output >= MINIMUM
    return weights / weights.sum()


def test_laws_of_drafts_leave_the_end_out_below_the_minimum_length():
    asked = [
        request([s], COUNT, stops=Stops((END,)), minimum=MINIMUM, temperature=1.0, seed=s)
        for s in range(3)
    ]
    below = above = 0
    for row in decode(asked, TARGET, table_draft(eager, V), REJECTION, K):
        tokens, evidence = row.tokens.tolist(), row.trace.evidence
        for place, overlap in enumerate(evidence.overlap):
            if overlap is None:
                continue
            known = tuple(tokens[: row.prompt_length + place])
            p, q = softmax(TARGET(known), place), softmax(eager(known), place)
            assert overlap == pytest.approx(np.minimum(p, q).sum(), abs=1e-5)
            below += place < MINIMUM
            above += place >= MINIMUM
    assert below > 10
    assert above > 0
