"""What n-gram drafters propose, written down from their descriptions, and what greedy decoding of a
known output then accepts. Independent of the engines: lists and loops only.
"""

from __future__ import annotations


def ours(tokens, n, k):
    """drafters/ngram.py with min_n = max_n = n: the latest earlier occurrence of the last n tokens
    that has k tokens behind it, else the earliest one."""
    places = [i for i in range(len(tokens) - n) if tokens[i : i + n] == tokens[-n:]]
    if not places:
        return []
    whole = [i for i in places if i + n + k <= len(tokens)]
    start = (whole[-1] if whole else places[0]) + n
    return tokens[start : start + k]


def simple(tokens, n, m):
    """llama.cpp, ngram-simple: the newest occurrence, the first position and the one just before
    the suffix left out; what follows it without the newest token, and nothing below n tokens."""
    known = len(tokens) - 1
    if known <= n + m + 1:
        return []
    for i in range(known - n - 1, 0, -1):
        if tokens[i : i + n] == tokens[-n:]:
            draft = tokens[i + n : min(i + n + m, known)]
            return draft if len(draft) >= n else []
    return []


def decode(prompt, output, limit, lookup, n, k, whole_first=False):
    """Drafts of each step and how many of them greedy decoding keeps.

    Args:
        output: all emitted tokens; the first comes from the prefill.
        limit: the request's token limit; a step drafts at most one token less than is left.
        whole_first: whether a draft of k tokens is looked up first and then cut to what is left.
    """
    steps, at = [], 1
    while at < len(output):
        room = min(k, limit - at - 1)
        tokens = [*prompt, *output[:at]]
        draft = lookup(tokens, n, k if whole_first else room)[:room] if room > 0 else []
        kept = 0
        while kept < len(draft) and at + kept < len(output) and draft[kept] == output[at + kept]:
            kept += 1
        steps.append((draft, kept))
        at += kept + 1
    return steps
