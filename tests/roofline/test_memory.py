"""Memory of a target and its draft by hand."""

import pytest

from specbench.roofline.cost import Precision
from specbench.roofline.memory import kv_request_bytes, kv_token_bytes, room, weight_bytes
from specbench.roofline.shape import Shape
from tests.roofline.shapes import BF16, dense, routed

FOUR = Precision("bfloat16", 4, 4, 8)


def test_weights():
    assert weight_bytes(dense(), BF16) == 2 * (2000 + 2 * 500)
    assert weight_bytes(dense(own_output=False), BF16) == 2 * (2000 + 500)
    assert weight_bytes(dense(own_output=False, own_embedding=False), BF16) == 4000
    assert weight_bytes(routed(), FOUR) == (1000 + 8 * 300) / 2 + 2 * 1000


def test_keys_and_values():
    # 2 layers x 2 x 2 heads x 8 elements x 2 bytes
    assert kv_token_bytes(dense(), BF16) == 128
    assert kv_token_bytes(dense(), FOUR) == 64
    assert kv_request_bytes(dense(), BF16, 100) == 12800
    assert kv_request_bytes(dense(window=10), BF16, 100) == 1280
    assert kv_request_bytes(dense(window=10), BF16, 4) == 512


def test_a_draft_takes_the_place_of_requests():
    draft = Shape("head", 10, 50, routed().layers, 50, own_embedding=False, own_output=False)
    # target 6000 B and 12800 B per request; draft 6800 B of weights and 6400 B per request
    found = room((dense(), BF16), (draft, BF16), 100_000, 100)
    assert found.weights == (6000, 6800)
    assert found.request == (12800, 6400)
    assert (found.alone, found.together, found.lost) == (7, 4, 3)  # 94000 and 87200 B are left
    assert [found.holds(requests) for requests in (1, 4, 5)] == [True, True, False]


def test_weights_that_do_not_fit():
    found = room((dense(), BF16), None, 5000, 100)
    assert found.alone is found.together is found.lost is None
    assert room((dense(), BF16), None, 6000, 100).alone == 0


def test_parameters_and_what_a_token_meets():
    assert dense().parameters == 3000
    assert dense().active == 2500
    assert routed().parameters == 1000 + 2400 + 1000
    assert routed().active == 1000 + 600 + 500
    assert dense().depth == 2


def test_a_tied_projection_is_stored_once_and_met_all_the_same():
    assert dense(own_output=False).parameters == 2500
    assert dense(own_output=False).active == pytest.approx(2500)
