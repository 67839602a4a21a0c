"""Requests to a llama.cpp server that was started for a test."""

from __future__ import annotations

import json
import urllib.request

from specbench.engines.servers import process
from specbench.engines.servers.llamacpp import LAUNCHER
from specbench.engines.servers.ports import free_port
from specbench.engines.servers.protocol import ServerPlan

# A second thread waits in a busy loop for the first, which is bad where tests share two cores.
ONE_THREAD = {"args_extra": ["--threads", "1"]}


def serve(arm, gguf, **more):
    return process.start(LAUNCHER, ServerPlan(arm, str(gguf), free_port(), dtype="float32", **more))


def complete(url, ids, count, **more):
    """The last word of the server on a prompt of token ids; greedy unless told otherwise."""
    body = {
        "prompt": list(ids),
        "n_predict": count,
        "temperature": 0.0,
        "top_k": 0,
        "top_p": 1.0,
        "min_p": 0.0,
        "repeat_penalty": 1.0,
        "return_tokens": True,
        "cache_prompt": False,
        **more,
    }
    request = urllib.request.Request(
        f"{url}/completion", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.loads(answer.read())


def drafted(answers):
    """Drafted and kept tokens of each answer."""
    return [
        (a["timings"].get("draft_n", 0), a["timings"].get("draft_n_accepted", 0)) for a in answers
    ]
