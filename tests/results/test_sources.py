"""One line says where the acceptance of servers came from."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

from specbench.core.manifest import ArmFactors
from specbench.core.trace import Granularity, Steps, Tally, Window
from specbench.results.read import Recorded, RecordId
from specbench.results.sources import acceptance_sources
from specbench.results.store import create_run, write_atomic
from specbench.results.summary import Summary, read_summary
from tests.results.records import MANIFEST, trace

TALLY = Tally("sglang meta_info", steps=4, drafted_steps=4, verified=8, accepted=2, committed=6)


def run(*arms, engine="sglang"):
    """Three requests of each arm: (name, their fields, its windows)."""
    names = ["plain", *(arm[0] for arm in arms)]
    factors = [ArmFactors(name, "ngram", 3, "rejection", engine) for name in names]
    found = Recorded(replace(MANIFEST, arms=tuple(factors)))
    for name, fields, windows in (("plain", [{}] * 3, []), *arms):
        for item, changes in zip("abc", fields, strict=True):
            one = trace(item, name, **changes)
            found.traces[RecordId(one.key, name, 1)] = one
        found.windows[name, "unit-a"] = windows
    return found


def totals(tally=TALLY):
    return {"granularity": Granularity.CHUNK, "steps": Steps(), "tally": tally}


def counted(place):
    tally = replace(TALLY, source=f"counters at {place}")
    return [Window(1, tally), Window(1, None, "other traffic: 2 sent"), Window(1, tally)]


def test_steps_totals_and_counters():
    def line(fields, windows=()):
        return acceptance_sources(run(("eagle", fields, list(windows))))

    steps = {}
    assert line([steps] * 3) == ("acceptance: every decode step, as the server reports it",)
    assert line([steps, totals(), totals()]) == (
        "acceptance: every decode step, as the server reports it, 1 of 3 requests",
    )
    assert line([totals()] * 3) == ("acceptance: totals per request (sglang meta_info)",)
    assert line([totals(), totals(), totals(None)]) == (
        "acceptance: totals per request (sglang meta_info), 2 of 3 requests",
    )
    assert line([totals(None)] * 3, counted("http://h/metrics")) == (
        "acceptance: counters (http://h/metrics), 2 of 3 windows",
    )
    (none,) = line([totals(None)] * 3, [Window(3, None, "counters not exposed")])
    assert none.startswith("acceptance: none (")
    assert "counters not exposed" in none


def test_servers_that_are_started_anew_have_many_addresses():
    windows = [*counted("http://h:1/metrics"), *counted("http://h:2/metrics")]
    found = run(("eagle", [totals(None)] * 3, windows))
    assert acceptance_sources(found) == ("acceptance: counters (2 addresses), 4 of 6 windows",)


def test_arms_that_differ_are_named():
    found = run(("a", [{}] * 3, []), ("b", [totals()] * 3, []), ("c", [{}] * 3, []))
    assert acceptance_sources(found) == (
        "acceptance of a, c: every decode step, as the server reports it",
        "acceptance of b: totals per request (sglang meta_info)",
    )


def test_engines_in_this_process_and_plain_alone_say_nothing():
    assert acceptance_sources(run(("ngram", [{}] * 3, []), engine="native")) == ()
    assert acceptance_sources(run()) == ()


def test_a_summary_from_before_can_be_read(tmp_path):
    folder = create_run(tmp_path, MANIFEST, "", "")
    summary = Summary(
        *("run-1", "title", "model", "float32", "cpu", True, 1, 1, 0, 0, 1, 0),
        sentence="", rows=(), warnings=(), failures=(), acceptance=("acceptance: steps",),
    )  # fmt: skip
    document = asdict(summary)
    write_atomic(folder.summary_json, json.dumps(document))
    assert read_summary(folder) == summary
    del document["acceptance"]
    write_atomic(folder.summary_json, json.dumps(document))
    assert read_summary(folder).acceptance == ()
