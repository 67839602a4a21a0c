"""EOS, caps and stop strings end an output at the earliest boundary (CASES A1, A2, A3)."""

import pytest
import torch

from specbench.core.request import Limits, Stops
from specbench.core.trace import Cut, Finish
from specbench.decoding.loop import DecodeLoop
from specbench.decoding.sequence import Sequence as DecodedSequence
from specbench.decoding.stops import StopChecker
from specbench.decoding.timing import TickRecorder
from specbench.models.kv_pool import KVPool
from specbench.models.target import PackedTarget
from specbench.verify.greedy import RULE as GREEDY
from tests.tables import PlannedDrafter, TableModel, decode, run
from tests.toys import request, sequence

pytestmark = pytest.mark.usefixtures("one_thread")

PROMPT = [1, 1]
EOS = 9


def script(output, vocabulary=64):
    """A table that emits ``output`` after PROMPT, and a drafter that knows it."""

    def logits(tokens):
        row = [0.0] * vocabulary
        row[output[len(tokens) - len(PROMPT)]] = 5.0
        return row

    return logits, lambda pool: PlannedDrafter(lambda tokens: output[len(tokens) - len(PROMPT) :])


def decoded(output, k, cap=99, stops=None, minimum=0):
    table, drafter_of = script(output)
    asked = request(PROMPT, cap, stops=stops or Stops((EOS,)), minimum=minimum)
    (row,) = decode([asked], table, drafter_of, GREEDY, k)
    return row.trace


def test_a1_eos_inside_an_accepted_run_ends_the_output():
    trace = decoded([10, 11, EOS, 20, 21, 22, 23, 24], k=5)
    assert trace.output_ids == [10, 11, EOS]
    assert trace.finish is Finish.EOS
    # The prefill emits 10; one step drafts 11, EOS, 20, 21, 22 and stops behind EOS.
    steps = trace.steps
    assert (steps.verified, steps.judged, steps.accepted) == ([5], [2], [2])
    assert (steps.committed, steps.cut) == ([2], [Cut.EOS])


@pytest.mark.parametrize("slot", range(1, 7))
def test_a1_sweep_committed_equals_the_slot_of_eos(slot):
    output = [10] + [11] * (slot - 1) + [EOS] + [12] * 9
    trace = decoded(output, k=5)
    assert trace.output_ids == output[: slot + 1]
    assert trace.steps.committed == [slot]
    # Slot 6 is the token after five accepted drafts: nothing was cut there.
    assert trace.steps.cut == [Cut.EOS if slot < 6 else Cut.NONE]
    assert trace.steps.accepted == [min(slot, 5)]
    assert len(trace.evidence) == len(trace.output_ids) == sum(trace.arrivals.tokens)


@pytest.mark.parametrize("k", [0, 1, 5])
def test_eos_from_the_prefill_ends_the_output_before_any_step(k):
    trace = decoded([EOS, 10, 11], k)
    assert trace.output_ids == [EOS]
    assert trace.finish is Finish.EOS
    assert len(trace.steps) == 0


@pytest.mark.parametrize(
    ("cap", "kept", "finish"), [(5, 3, Finish.EOS), (3, 3, Finish.EOS), (2, 2, Finish.LENGTH)]
)
@pytest.mark.parametrize("k", [0, 2, 6])
def test_a2_earliest_boundary_wins(cap, kept, finish, k):
    output = [10, 11, EOS, 20, 21, 22, 23]
    trace = decoded(output, k, cap)
    assert trace.output_ids == output[:kept]
    assert trace.finish is finish


def test_one_token_needs_no_step():
    trace = decoded([10, 11, 12], k=3, cap=1)
    assert (trace.output_ids, trace.finish, len(trace.steps)) == ([10], Finish.LENGTH, 0)


@pytest.mark.parametrize("context", [3, 2, 1])
def test_context_leaves_no_more_than_its_own_room(context):
    assert StopChecker(Stops(), Limits(50, context=context), 2, None).cap == context - 2


def test_a_stop_id_does_not_count_below_the_minimum_length():
    checker = StopChecker(Stops((EOS,)), Limits(9, min_new_tokens=2), 1, None)
    assert [checker.push(EOS) for _ in range(3)] == [None, None, Finish.EOS]


class Pieces:
    """A detokenizer with one text per id."""

    def __init__(self, pieces):
        self._pieces = pieces

    def push(self, token_id):
        return self._pieces[token_id]


def decoded_text(pieces, k, strings, cap=99):
    """Emit ids 0, 1, 2 ... whose texts are ``pieces``, at most ``k + 1`` per step."""
    table, drafter_of = script([*range(len(pieces)), *[0] * 20])
    pool = KVPool(1, 64, torch.float32, torch.device("cpu"))
    target = PackedTarget(TableModel("target", pool, table), torch.device("cpu"))
    asked = request(PROMPT, cap, stops=Stops((), tuple(strings)))
    checker = StopChecker(asked.stops, asked.limits, len(PROMPT), Pieces(pieces))
    blank = sequence(request(PROMPT, cap), pool)
    row = DecodedSequence(asked, blank.slab, blank.trace, checker)
    run(DecodeLoop(target, drafter_of(pool), GREEDY, k, TickRecorder(lambda: 0)), [row])
    text = "".join(pieces[token] for token in row.trace.output_ids)
    return text[: checker.text_end], row.trace


A3_PIECES = ["a", "b", "</st", "op>", "c", "d", "e", "f"]


@pytest.mark.parametrize("k", [0, 1, 2, 3, 7])
def test_a3_stop_string_is_found_however_tokens_are_grouped(k):
    text, trace = decoded_text(A3_PIECES, k, ["</stop>"])
    assert text == "ab"
    assert trace.output_ids == [0, 1, 2, 3]
    assert trace.finish is Finish.STOP
    assert sum(trace.arrivals.tokens) == len(trace.evidence) == 4
    assert sum(trace.steps.committed) == 3


@pytest.mark.parametrize("k", [0, 2, 7])
@pytest.mark.parametrize(
    ("pieces", "strings", "text", "ids"),
    [
        (["x", "END", "y"], ["END"], "x", 2),
        (["x", "aEN", "D tail"], ["END"], "xa", 3),
        (["abc", "abd", "z"], ["bd", "abcab"], "", 2),
        (["a", "", "b", "c"], ["ab"], "", 3),
        (["a", "a", "a", "b"], ["aab"], "a", 4),
    ],
)
def test_text_ends_before_the_earliest_match(pieces, strings, text, ids, k):
    got, trace = decoded_text(pieces, k, strings)
    assert got == text
    assert trace.output_ids == list(range(ids))


def test_a_stop_string_at_the_cap_wins_over_the_cap():
    text, trace = decoded_text(A3_PIECES, 7, ["</stop>"], cap=4)
    assert (text, trace.finish) == ("ab", Finish.STOP)


def test_stop_strings_need_a_detokenizer():
    with pytest.raises(ValueError, match="detokenizer"):
        StopChecker(Stops((), ("x",)), Limits(4), 1, None)
