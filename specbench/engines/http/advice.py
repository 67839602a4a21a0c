"""What to do about a server that cannot be measured."""

from __future__ import annotations

from specbench.errors import PrerequisiteError, SpecbenchError

_ADVICE = (
    (("HTTP 401", "HTTP 403"), "set SPECBENCH_API_KEY, or name the variable in server.api_key_env"),
    (("HTTP 429", "HTTP 503"), "it is loading or busy: wait, or set server.retries"),
    (("idle_timeout_s", "timeout_s"), "it is stuck or slow: see its log, or raise that time"),
    (("refuses the field",), "it does not take that field: use the engine's own name in --engine"),
    (("holds no token",), "the model ended at once: check the chat template and the model"),
)
_ELSE = "see the server's log; lower --concurrency or --max-new-tokens if it is short of memory"


def warm_up_failure(arm: str, error: str) -> SpecbenchError:
    """The error for an arm whose warm-up failed, with what to do next."""
    text = f"arm {arm} failed while warming up: {error}"
    found = (advice for words, advice in _ADVICE if any(word in error for word in words))
    advice = next(found, _ELSE)
    refused = any(word in error for word in _ADVICE[0][0])
    return PrerequisiteError(text, advice) if refused else SpecbenchError(text, advice)
