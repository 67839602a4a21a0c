"""What may stand behind each key of experiment.toml, in the words of messages about wrong files."""

from __future__ import annotations

from specbench.experiment.server_schema import WRITE as SERVER_WRITE

SCHEMA_VERSION = 1

WRITE = {
    "schema_version": f"schema_version = {SCHEMA_VERSION}",
    "model": 'a named demo model, a Hugging Face id, a folder or a .gguf file, as "..."',
    "dtype": '"float32", "bfloat16" or "float16"',
    "quant": '"none", "int8", "int4" or "int4-g64" (groups of 16, 32, 64 or 128 columns)',
    "quant_backend": '"torch", "torchao" or "bitsandbytes"',
    "quant_head": "true or false",
    "device": '"cpu", "cuda" or "cuda:0"',
    "suites": 'a list of suite names or paths, as ["code", "chat", "translation"]',
    "split": '"test", "dev" or "all"',
    "limit": "a whole number of prompts per suite, at least 1, or leave the key out for all",
    "temperatures": "a list of different numbers of at least 0, as [0.0, 0.7]",
    "top_p": "a number above 0 and at most 1 (1 = off)",
    "top_k": "a whole number of at least 0 (0 = off)",
    "min_p": "a number from 0 to 1 (0 = off)",
    "max_new_tokens": "a whole number of at least 1",
    "repeats": "a whole number of at least 1",
    "concurrency": "a list of different whole numbers of at least 1, as [1, 8]",
    "history": '"plain", "own" or "fixed"',
    "system_policy": '"merge-into-user" (or "merge"), "drop" or "fail"',
    "seed": "a whole number of at least 0",
    "warmup": "a whole number of at least 1",
    "stop": 'a list of strings, as ["\\n\\n"]',
    "drafter": "a name of `specbench list drafters`, for servers of `specbench list engines`",
    "k": "a whole number of at least 0: the longest draft in tokens",
    "rule": "a name of `specbench list rules`, for servers of `specbench list engines`",
    "options": "a table of the drafter's options, as options = { min_n = 1 }",
    "rule_options": "a table of the rule's options",
    "allow_lossy": "true or false",
    "arrival": '"closed" (the next when one ends), "poisson" or "burst"',
    "key": 'a key that a study can vary, as "target.quant"',
    "values": 'a list of at least two different values of that key, as ["none", "int8"]',
    "metric": "a metric of acceptance, or speedup; see `specbench list metrics`",
    "position": "a draft position from 1, of accept_pos alone",
    "value": "the published number, above 0",
    "tolerance": "a share of the published number, as 0.05",
    "source": "where the number was published",
    "rate": 'requests per second, above 0, for arrival = "poisson"',
    **SERVER_WRITE,
}
"""Key -> what to write."""
