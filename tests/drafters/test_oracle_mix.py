"""Every accepted length occurs often; KV and identities hold after each of them."""

import pytest

from specbench.drafters.none import NoDrafter
from specbench.verify.greedy import RULE as GREEDY
from specbench.verify.rejection import RULE as REJECTION
from specbench.verify.target_match import RULE as TARGET_MATCH
from tests.drafters.packed_loops import asked, decode_packed
from tests.models.families import VOCABULARY, build, reference
from tests.oracle import OracleMixDrafter, from_outputs
from tests.planting import require_every_length

pytestmark = pytest.mark.usefixtures("one_thread")

K, COUNT = 3, 60


def plain_outputs(requests):
    rows, _, _ = decode_packed(requests, lambda pool, model: NoDrafter(), TARGET_MATCH, 0)
    return {row.request.key.item: row.trace.output_ids for row in rows}


def check(rows, target):
    assert all(len(row.trace.output_ids) == COUNT for row in rows)
    assert target.checks == sum(len(row.trace.steps) for row in rows)
    require_every_length(rows, K)


@pytest.mark.parametrize(
    ("rule", "temperature"),
    [(GREEDY, 0.0), (REJECTION, 0.0), (TARGET_MATCH, 0.0), (TARGET_MATCH, 0.8)],
)
def test_output_equals_plain_at_every_accepted_length(rule, temperature):
    requests = asked(COUNT, temperature)
    plain = plain_outputs(requests)
    drafter = OracleMixDrafter(from_outputs(plain), VOCABULARY)
    rows, target, _ = decode_packed(requests, lambda *_: drafter, rule, K, check=True)
    assert {row.request.key.item: row.trace.output_ids for row in rows} == plain
    check(rows, target)


def test_rejection_at_a_temperature_keeps_kv_and_counts():
    logits = reference(build("llama"))

    def argmax_continuation(row, count):
        ids = row.tokens.tolist()
        for _ in range(count):
            ids.append(int(logits(ids)[-1].argmax()))
        return ids[row.length :]

    # Cold enough that right drafts are often accepted, warm enough that they are not always.
    requests = asked(COUNT, 0.3)
    drafter = OracleMixDrafter(argmax_continuation, VOCABULARY)
    rows, target, _ = decode_packed(requests, lambda *_: drafter, REJECTION, K, check=True)
    check(rows, target)


def test_a_stale_row_would_be_noticed():
    # The KV check itself: one wrong number in a committed row fails it.
    requests = asked(6)[:1]
    plain = plain_outputs(requests)

    class Careless(OracleMixDrafter):
        def observe(self, rows, draft, verified, acceptance, taps):
            pool = self.pool
            pool.layer("target", 1)[0][rows[0].slab, 0, 0, 0] += 0.01

    def careless(pool, model):
        drafter = Careless(from_outputs(plain), VOCABULARY)
        drafter.pool = pool
        return drafter

    with pytest.raises(AssertionError, match="not close"):
        decode_packed(requests, careless, GREEDY, K, check=True)


def test_a_hole_inside_a_draft_ends_what_can_be_accepted():
    requests = asked(20)
    plain = plain_outputs(requests)

    class Holes(OracleMixDrafter):
        def _planted(self, row, room):
            line = list(self._continuation(row, room))
            return [token if place != 1 else -1 for place, token in enumerate(line)]

    drafter = Holes(from_outputs(plain), VOCABULARY)
    rows, _, _ = decode_packed(requests, lambda *_: drafter, GREEDY, K, check=True)
    assert {row.request.key.item: row.trace.output_ids for row in rows} == plain
    assert {a for row in rows for a in row.trace.steps.accepted[:-1]} == {1}
