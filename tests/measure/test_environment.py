"""Provenance without secrets."""

from __future__ import annotations

import json

import pytest

from specbench.measure.environment import environment, without_secrets


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        (["--api-key", "abc123"], ["--api-key", "<removed>"]),
        (["--api-key=abc123"], ["--api-key=<removed>"]),
        (["--set", "target.options.hf_token=abc"], ["--set", "target.options.hf_token=<removed>"]),
        (["--url", "http://me:pw@host/v1"], ["--url", "http://<removed>@host/v1"]),
        (["hf_abcdefghijklmnop"], ["<removed>"]),
        (["--header", "Bearer xyz"], ["--header", "Bearer <removed>"]),
        (["--max-new-tokens", "64"], ["--max-new-tokens", "64"]),
        (["--set", "workload.max_new_tokens=64"], ["--set", "workload.max_new_tokens=64"]),
        (["run", "quickstart", "-k", "5"], ["run", "quickstart", "-k", "5"]),
    ],
)
def test_secrets_are_taken_out(words, kept):
    assert list(without_secrets(words)) == kept


def test_environment_is_plain_json_and_names_the_machine(tmp_path):
    found = environment(tmp_path)
    json.dumps(found, allow_nan=False)
    assert found["git"] is None
    assert found["hardware"]["cores_logical"] >= 1
    assert "numpy" in found["libraries"]
