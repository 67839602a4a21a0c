"""Cells of CSV files: three states that cannot be confused, and no numbers lost (case H2)."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest

from specbench.core.quantity import Quantity, nothing, unavailable
from specbench.core.table import COLUMNS, Row, parse_row
from specbench.core.trace import Counted, Finish
from specbench.errors import UsageError
from specbench.metrics.definitions import DEFINITIONS
from specbench.results.cells import measure_cells
from specbench.results.fidelity import measure_fidelity
from specbench.results.items import COLUMNS as ITEM_COLUMNS
from specbench.results.items import csv_text, item_rows
from specbench.results.limit import LIMITED
from specbench.results.read import Recorded, RecordId
from specbench.results.step_costs import PREDICTION
from specbench.results.tables import table_rows
from tests.results.records import MANIFEST, trace

ROW = Row(
    *("run", "id", "ngram", "ngram", 3, "chain", "rejection", "one_hot", "proven", "native"),
    *("float32", "none", "code", "test", "", 0.7, 1),
)


def cells(quantity):
    row = ROW.measured("tpot", "p50", "tpot@1", quantity)
    return dict(zip(COLUMNS, row.cells(), strict=True))


def test_columns_are_those_of_the_architecture():
    assert ",".join(COLUMNS) == (
        "run,identity,arm,drafter,k_max,tree,rule,draft_law,lossless,engine,dtype,quant,suite,"
        "split,category,temperature,concurrency,metric,stat,definition,unit,value,low,high,level,"
        "n,guards,reason,method"
    )


def test_value_zero_and_missing_are_three_states():
    assert cells(Quantity(0.0, "ms"))["value"] == "0.0"
    missing = cells(nothing("one token", "ms"))
    assert (missing["value"], missing["reason"]) == ("", "nothing to measure: one token")
    absent = cells(unavailable("chunks only", "ms"))
    assert (absent["value"], absent["reason"]) == ("", "not available: chunks only")


def test_numbers_are_not_rounded_and_rows_come_back():
    quantity = Quantity(0.1 + 0.2, "ms", 1e-17, 1e300, 0.95, 12, "bootstrap")
    found = cells(quantity)
    assert float(found["value"]) == 0.1 + 0.2
    assert parse_row(found) == ROW.measured("tpot", "p50", "tpot@1", quantity)


def recorded(manifest=MANIFEST):
    found = Recorded(manifest)
    for number, item in enumerate("ab"):
        for arm in ("plain", "ngram"):
            entry = trace(item, arm, start=1_000 * number + 100 * (arm == "ngram"))
            found.traces[RecordId(entry.key, arm, 1)] = entry
            found.hashes[RecordId(entry.key, arm, 1)] = f"{item}{arm}"
    return found


def fidelity(measured):
    found = measure_fidelity(MANIFEST, {c: m.records for c, m in measured.items()})
    return {cell: one.quantities() for cell, one in found.items()}


def test_every_metric_of_every_arm_is_a_row_with_its_definition():
    timed = replace(MANIFEST, calibration={"steps": {"arms": {}}})
    measured = measure_cells(recorded(timed))
    rows = list(table_rows(timed, measured, {}, fidelity(measured)))
    assert {row.arm for row in rows} == {"plain", "ngram"}
    known = DEFINITIONS.keys() - LIMITED
    assert {row.metric for row in rows} == {*known, "greedy_identity", "fidelity", "price"}
    assert all(row.definition.startswith(f"{row.metric}@") for row in rows)
    assert all((row.value is None) == bool(row.reason) for row in rows)
    identical = [
        r for r in rows if (r.arm, r.metric, r.stat) == ("ngram", "greedy_identity", "identical")
    ]
    assert [(row.value, row.n) for row in identical] == [(2.0, 2)]
    older = measure_cells(recorded())
    left_out = {row.metric for row in rows} - {
        r.metric for r in table_rows(MANIFEST, older, {}, {})
    }
    assert left_out == {*PREDICTION, "greedy_identity", "fidelity", "price"}


def test_categories_with_two_prompts_have_rows_of_their_own():
    found = recorded()
    for record, entry in list(found.traces.items()):
        for name, category in (("c", "x"), ("d", "x"), ("e", "y")):
            item = f"{record.key.item}{name}"
            more = trace(item, record.arm, start=entry.start_ns, category=category)
            found.traces[RecordId(more.key, record.arm, 1)] = more
    rows = table_rows(MANIFEST, measure_cells(found), {}, {})
    counts = {
        row.category: row.value
        for row in rows
        if (row.arm, row.metric, row.stat) == ("ngram", "requests", "ok")
    }
    assert counts == {"": 8.0, "x": 4.0, "y": 2.0}


def test_guards_are_in_the_rows_of_their_cell():
    measured = measure_cells(recorded())
    marked = list(measured)[1]
    rows = table_rows(MANIFEST, measured, {marked: ["draft_inert", "degenerate"]}, {})
    assert {(row.arm, row.guards) for row in rows} == {
        ("plain", ""),
        ("ngram", "draft_inert degenerate"),
    }


def test_items_have_a_row_per_record_with_the_hash_of_its_trace():
    rows = [dict(zip(ITEM_COLUMNS, row, strict=True)) for row in item_rows(recorded())]
    assert [(row["item"], row["arm"], row["trace_sha256"]) for row in rows] == [
        *(("a", "ngram", "angram"), ("a", "plain", "aplain")),
        *(("b", "ngram", "bngram"), ("b", "plain", "bplain")),
    ]
    first = rows[0]
    assert (first["first_token_ns"], first["last_token_ns"]) == ("10", "30")
    assert (first["accepted"], first["committed"], first["cut"]) == ("1", "2", "length")
    assert (first["decode_ns"], first["decode_tokens"]) == ("20", "2")
    assert {row["start"] for row in rows} == {"0"}


def test_drafts_beyond_an_arms_k_are_refused_unless_its_server_chose_it():
    found = recorded()
    arms = [replace(arm, k=1) if arm.name == "ngram" else arm for arm in MANIFEST.arms]
    found.manifest = replace(MANIFEST, arms=tuple(arms))
    with pytest.raises(UsageError, match=r"arm ngram: .* > K 1"):
        measure_cells(found)
    arms = [replace(arm, engine="vllm") for arm in arms]
    found.manifest = replace(MANIFEST, arms=tuple(arms))
    assert measure_cells(found)


@pytest.mark.parametrize("options", [{"schedule": "heuristic"}, {"universal": True}])
def test_a_draft_that_may_outgrow_its_arms_k_is_not_held_against_it(options):
    """transformers adds 2 to K after a full accept; other tokenizers count their own tokens."""
    found = recorded()
    arms = [
        replace(arm, k=1, engine="transformers_assisted", drafter_options=options)
        if arm.name == "ngram"
        else arm
        for arm in MANIFEST.arms
    ]
    found.manifest = replace(MANIFEST, arms=tuple(arms))
    assert measure_cells(found)


@pytest.mark.parametrize(
    ("fields", "tokens"),
    [
        ({}, "3"),
        ({"hidden_end": 1}, "4"),
        ({"output_ids": [1, 2, 3, 4, 5], "counted": Counted.CHUNK_USAGE}, "3"),
        ({"output_ids": []}, "3"),
    ],
)
def test_items_count_tokens_as_every_metric_does(fields, tokens):
    found = Recorded(MANIFEST)
    made = replace(trace("a"), **fields)
    found.traces[RecordId(made.key, "plain", 1)] = made
    found.hashes[RecordId(made.key, "plain", 1)] = "hash"
    (row,) = [dict(zip(ITEM_COLUMNS, row, strict=True)) for row in item_rows(found)]
    assert row["output_tokens"] == tokens


def test_failed_items_have_empty_cells_and_harmless_text():
    found = Recorded(MANIFEST)
    bad = trace("a", finish=Finish.ERROR, error='=1+1, "x"\nsecond line', output_ids=[])
    bad.steps, bad.arrivals, bad.evidence = type(bad.steps)(), type(bad.arrivals)(), bad.evidence
    found.traces[RecordId(bad.key, "plain", 1)] = bad
    found.hashes[RecordId(bad.key, "plain", 1)] = "hash"
    text = csv_text(ITEM_COLUMNS, item_rows(found))
    row = next(csv.DictReader(io.StringIO(text)))
    assert row["error"] == '\'=1+1, "x" second line'
    assert [row[name] for name in ("output_tokens", "steps", "accepted", "decode_ns")] == [""] * 4
