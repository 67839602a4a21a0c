"""Logits that name no token fail their request with a reason; the others go on unchanged."""

import pytest
import torch

from specbench.core.request import Sampling
from specbench.core.trace import Finish
from specbench.decoding.rows import BrokenRowsError, TargetRows, refuse_broken
from tests.engines.native_runs import observed, requests, run

pytestmark = pytest.mark.usefixtures("one_thread")
NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("bad", [[NAN, 1.0, 0.0], [INF, 1.0, 0.0], [-INF, -INF, -INF]])
def test_every_kind_of_broken_row_names_its_request(bad):
    rows = torch.tensor([[0.0, -INF, 1.0], bad, [0.0, 1.0, 2.0]])
    index = torch.tensor([[0, 0], [2, 1]])
    with pytest.raises(BrokenRowsError) as refused:
        refuse_broken(TargetRows(rows, index, [Sampling(1.0)] * 3))
    assert refused.value.requests == (1,)


def test_rows_with_padding_are_fine():
    rows = TargetRows(torch.tensor([[0.0, -INF, 1.0]]), torch.tensor([[0]]), [Sampling(1.0)])
    refuse_broken(rows)


@pytest.mark.parametrize("arm", ["plain", "ngram-rejection", "draft_model-rejection"])
@pytest.mark.parametrize("concurrency", [1, 3])
@pytest.mark.parametrize("value", [NAN, -INF])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_one_broken_request_leaves_the_others_token_for_token(
    engine, monkeypatch, arm, concurrency, value, temperature
):
    asked = requests(temperature)
    whole = run(engine, arm, asked, concurrency)
    target = engine._loops[arm]._target
    verify, prefill = target.verify, target.prefill

    def spoil(found, rows, item):
        result, taps = found
        for place, row in enumerate(rows):
            if row.request.key.item == item:
                with torch.inference_mode():
                    result.raw[result.index[place, 0]] = value
        return result, taps

    monkeypatch.setattr(target, "verify", lambda r, t, p: spoil(verify(r, t, p), r, "item-4"))
    monkeypatch.setattr(target, "prefill", lambda r, p: spoil(prefill(r, p), r, "item-2"))
    traces = run(engine, arm, asked, concurrency)
    for item in ("item-2", "item-4"):
        assert traces[item].finish is Finish.ERROR
        assert "NaN" in traces[item].error
    assert traces["item-2"].output_ids == []
    for item in traces.keys() - {"item-2", "item-4"}:
        assert observed(traces[item]) == observed(whole[item])
    assert engine._pool.available == engine._pool.slabs
