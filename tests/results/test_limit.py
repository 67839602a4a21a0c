"""The limit in a manifest, and in tables and summaries: there where it is known."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from specbench.core.limit import Limit, Reads
from specbench.results.limit import limit_words, memory_limit
from specbench.results.schema import ResultError, manifest_document, read_manifest
from tests.results.records import MANIFEST

FOUND = Limit(
    9.3e9, "a matrix of 537 MB, timed before the run with 2 threads", Reads(538_060_032, 46_080)
)


def with_limit(document):
    return replace(MANIFEST, calibration={"limit": document})


def test_what_was_found_is_read_back():
    written = manifest_document(with_limit(asdict(FOUND)))
    assert memory_limit(read_manifest(written, "manifest.json")) == FOUND


def test_other_manifests_have_none():
    assert memory_limit(MANIFEST) is None
    assert limit_words(None) == ""


def test_a_damaged_one_is_named():
    document = asdict(FOUND)
    document["reads"]["weights"] = "many"
    with pytest.raises(ResultError, match=r"calibration\.limit\.reads\.weights = 'many'"):
        memory_limit(with_limit(document))


def test_in_words():
    assert limit_words(FOUND) == (
        "of the decode steps' time: reading 538.1 MB of weights and 46.1 kB per token of context "
        "at 9.3 GB/s (a matrix of 537 MB, timed before the run with 2 threads)"
    )
    windowed = replace(FOUND, reads=Reads(538_060_032, 0))
    assert "context" not in limit_words(windowed)
