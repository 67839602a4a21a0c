"""Hints for servers that cannot be measured, and settings that they cannot be asked for."""

from __future__ import annotations

import pytest

from specbench.core.request import Sampling
from specbench.engines.http.advice import warm_up_failure
from specbench.engines.http.dialects import llamacpp, openai, vllm
from specbench.errors import UsageError


@pytest.mark.parametrize(
    ("error", "hint", "code"),
    [
        ("HTTP 401: no key", "SPECBENCH_API_KEY", 3),
        ("HTTP 503: loading", "server.retries", 1),
        ("no bytes for 3 s (idle_timeout_s)", "raise that time", 1),
        ("HTTP 400: x (the server refuses the field seed)", "--engine", 1),
        ("the answer holds no token", "chat template", 1),
        ("HTTP 500: out of memory", "--concurrency", 1),
    ],
)
def test_every_failure_has_its_hint(error, hint, code):
    found = warm_up_failure("a", error)
    assert hint in found.hint
    assert found.exit_code == code


def test_settings_without_an_equal_are_refused_before_anything_is_sent():
    openai.open_engine.check([Sampling(temperature=0.7, top_p=0.9)], [1])
    with pytest.raises(UsageError, match="top_k"):
        openai.open_engine.check([Sampling(temperature=0.7, top_k=5)], [1])
    with pytest.raises(UsageError, match="presence"):
        llamacpp.open_engine.check([Sampling(presence_penalty=0.5)], [1])
    with pytest.raises(UsageError, match="min_p"):
        vllm.open_engine.check([Sampling(temperature=0.7, top_p=0.9, min_p=0.1)], [1])
