"""The settings digest changes with everything that can change an output (case H1)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specbench.core.manifest import RecordId, digest, settings_digest
from tests.results.records import IDENTITY, MANIFEST, SAMPLING, key

RECORD = RecordId(key(), "ngram", 1)
ARM = MANIFEST.arms[1]


def identity(**changes):
    return replace(MANIFEST, identity=replace(IDENTITY, **changes))


def arm(**changes):
    return replace(MANIFEST, arms=(MANIFEST.arms[0], replace(ARM, **changes)))


def sampling(**changes):
    return identity(sampling=({**SAMPLING, **changes},))


MANIFESTS = {
    "target": identity(target="other"),
    "revision": identity(target_revision="2"),
    "weights": identity(weight_hash="v"),
    "dtype": identity(dtype="bfloat16"),
    "draft": arm(drafter_options={"model": "other"}),
    "draft weights": replace(MANIFEST, engine={"drafts": {"ngram": "hash"}}),
    "drafter": arm(drafter="draft_model"),
    "k": arm(k=4),
    "rule": arm(rule="greedy"),
    "rule options": arm(rule_options={"x": 1}),
    "temperature": sampling(temperature=0.5),
    "top-p": sampling(top_p=0.9),
    "top-k": sampling(top_k=5.0),
    "min-p": sampling(min_p=0.1),
    "repetition penalty": sampling(repetition_penalty=1.1),
    "frequency penalty": sampling(frequency_penalty=0.1),
    "presence penalty": sampling(presence_penalty=0.1),
    "seed": replace(MANIFEST, seed=2),
    "max tokens": identity(max_new_tokens=9),
    "stop": identity(stop=("\n",)),
    "template": identity(template_hash="u"),
    "system policy": identity(system_policy="drop"),
    "history": identity(history="own"),
    "suite": identity(suites={"suite": {"version": "2", "digest": "sha256:2", "split": "test"}}),
    "library version": replace(MANIFEST, environment={"libraries": {"torch": "2"}}),
}

RECORDS = {
    "repeat": RecordId(key(repeat=1), "ngram", 1),
    "turn": RecordId(key(turn=1), "ngram", 1),
    "item": RecordId(key("b"), "ngram", 1),
    "temperature of the request": RecordId(key(temperature=0.7), "ngram", 1),
    "arm": RecordId(key(), "plain", 1),
    "concurrency": RecordId(key(), "ngram", 8),
}

START = settings_digest(MANIFEST, RECORD, "prompt")


@pytest.mark.parametrize("changed", MANIFESTS.values(), ids=MANIFESTS.keys())
def test_settings_change_the_digest(changed):
    assert settings_digest(changed, RECORD, "prompt") != START


@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS.keys())
def test_records_have_their_own_digests(record):
    assert settings_digest(MANIFEST, record, "prompt") != START


def test_prompt_text_counts_and_everything_together_is_distinct():
    found = {settings_digest(changed, RECORD, "prompt") for changed in MANIFESTS.values()}
    found |= {settings_digest(MANIFEST, record, "prompt") for record in RECORDS.values()}
    found |= {settings_digest(MANIFEST, RECORD, "other prompt"), START}
    assert len(found) == len(MANIFESTS) + len(RECORDS) + 2


def test_nothing_changed_nothing_differs():
    assert settings_digest(replace(MANIFEST), RECORD, "prompt") == START
    renamed = replace(arm(name="other"))
    assert settings_digest(renamed, RecordId(key(), "other", 1), "prompt") == START
    assert settings_digest(replace(MANIFEST, title="x", created="y"), RECORD, "prompt") == START


def test_order_of_keys_does_not_matter():
    assert digest({"a": 1, "b": {"c": 2, "d": 3}}) == digest({"b": {"d": 3, "c": 2}, "a": 1})
