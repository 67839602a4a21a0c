"""What every metric means: the text in table headers and in docs/metrics.md.

A definition changes only together with its version, so that a number from an older file is never
printed under a newer meaning.
"""

from __future__ import annotations

from specbench.core.definition import Definition

_TABLE = (
    Definition(
        "accept_length",
        "sum of committed / sum of steps, pooled over all decode steps; recovered or bonus token "
        "included, prefill token and cut tokens excluded; plain decoding = 1",
        "tokens/step",
    ),
    Definition(
        "accept_length_drafted",
        "accept_length over steps with verified > 0 (nearest to vLLM's counters)",
        "tokens/step",
    ),
    Definition("draft_coverage", "share of decode steps with verified > 0", "1"),
    Definition(
        "accept_length_uncut", "accept_length without each request's last step", "tokens/step"
    ),
    Definition(
        "accept_length_macro", "mean over requests of the per-request accept_length", "tokens/step"
    ),
    Definition(
        "accepted_mean",
        "sum of accepted / sum of steps: drafted tokens only, no bonus token",
        "tokens/step",
    ),
    Definition(
        "accept_rate",
        "sum of accepted / sum of judged, of chains; none where nothing was drafted; of verified, "
        "not judged, where an engine tells totals alone",
        "1",
        3,
    ),
    Definition(
        "rate_depth",
        "sum of accepted / sum of judged nodes on each step's longest path, of trees",
        "1",
    ),
    Definition("rate_node", "sum of accepted / sum of judged nodes, of trees", "1"),
    Definition("waste", "1 - sum of accepted / sum of verified", "1"),
    Definition(
        "drafted_per_token", "sum of verified / sum of committed: how much was drafted at all", "1"
    ),
    Definition(
        "accept_pos",
        "per draft position k (a depth): judged_k = steps whose longest judged path has >= k "
        "nodes, reached_k = those that accepted >= k-1, accepted_k = those that accepted >= k; "
        "rate_k = accepted_k / judged_k, conditional_k = accepted_k / reached_k; where an engine "
        "tells totals alone there is no judged_k and rate_k is per step with verified > 0",
        "steps, 1",
        2,
    ),
    Definition(
        "outside_draft",
        "share of output tokens that the draft's own vocabulary does not have: never drafted",
        "1",
    ),
    Definition(
        "alpha",
        "mean over visited draft positions of sum min(target, draft): expected acceptance under "
        "the rejection rule; on trees that of the first candidate",
        "1",
    ),
    Definition(
        "alpha_iid",
        "root of (1 - a^(K+1)) / (1 - a) = 1 + accepted_mean, K = k_effective",
        "1",
    ),
    Definition(
        "k_effective",
        "nodes on the longest path verified in one step; the smallest K that explains the totals "
        "where an engine tells those alone",
        "tokens",
        2,
    ),
    Definition(
        "tokens_outside_steps",
        "output tokens that no decode step committed (those of each request's prefill)",
        "tokens",
    ),
    Definition("ttft", "first token of any kind - request start", "ms"),
    Definition(
        "ttfo",
        "first visible token - request start: reasoning before the answer is waited for; ttft "
        "where nothing is hidden",
        "ms",
    ),
    Definition("first_request", "ttft of the request that started first", "ms"),
    Definition("ttft_overhead", "ttft of the arm - ttft of plain, paired by request", "ms"),
    Definition("itl_chunk", "gap between two consecutive arrivals", "ms"),
    Definition(
        "itl",
        "gap / tokens in the later arrival, weighted by tokens: per-token latency; tokens of one "
        "decode step that arrive apart are joined where steps are known",
        "ms",
        2,
    ),
    Definition("tpot", "(t_last - t_first) / (N - tokens of the first arrival)", "ms"),
    Definition("latency_e2e", "last token - request start", "ms"),
    Definition("decode_time", "last token - first token, per request", "ms"),
    Definition(
        "tokens_per_s_user",
        "sum of (N - tokens of the first arrival) / sum of decode time: decode speed of a request",
        "1/s",
    ),
    Definition("tokens_per_s_e2e", "sum of N / sum of (last token - request start)", "1/s"),
    Definition(
        "tokens_per_s_device",
        "sum of N / time in which at least one request of the arm was in flight (the makespan)",
        "1/s",
    ),
    Definition(
        "tokens_per_s_peak",
        "most tokens that arrived within one second of that time (a last, partial second counts "
        "as a second)",
        "1/s",
    ),
    Definition(
        "speedup",
        "decode time per committed token, plain / arm, paired on the same requests, from totals; "
        "at concurrency > 1 in a closed loop the makespan of each block per output token, since "
        "requests overlap; not with open arrivals, whose makespan the arrival rate fixes",
        "x",
        2,
    ),
    Definition(
        "speedup_e2e",
        "the same with prefill: (last token - request start) per output token",
        "x",
        2,
    ),
    Definition(
        "predicted_speedup",
        "sum of committed / (drafted steps x (d + v + o) + idle steps x idle) over the requests "
        "behind speedup; d drafting and refill, v verification, o the rest of a step that drafts, "
        "idle a step that drafts nothing, each a median of steps over plain's median decode step "
        "of the same round, timed before the run on other prompts; accept_length and drafted: "
        "tokens per step and share of steps with a draft",
        "x, 1, tokens/step",
    ),
    Definition(
        "prediction_error",
        "(predicted_speedup - measured) / measured: value against speedup, e2e against speedup_e2e",
        "1",
    ),
    Definition(
        "phases",
        "time per phase: union of its spans over all ticks; unattributed = ticks less the union "
        "of all spans",
        "ms",
    ),
    Definition("span_coverage", "union of all spans / duration of all ticks", "1"),
    Definition(
        "host_share",
        "share of decode tick time outside the model forwards (spans draft, verify, refill and "
        "those of prefill; the device's where it has spans of its own)",
        "1",
    ),
    Definition(
        "hidden_share",
        "share of the host's spans commit and evidence in decode ticks during which a forward "
        "ran on the device; of runs whose schedule overlaps the two",
        "1",
    ),
    Definition(
        "graph_share",
        "share of decode ticks whose forwards were all replayed from captured graphs",
        "1",
    ),
    Definition(
        "limit_share",
        "time of reading the target's weights once per decode tick, and keys and values of each "
        "request's context once per step, at the bandwidth measured before the run or in the data "
        "sheet of the GPU, over the time of the decode ticks; what drafts read is not in it; of "
        "targets of 64 MB or more",
        "1",
    ),
    Definition(
        "memory",
        "bytes held: weights of target and draft, KV cache per token of each, peak, and what a "
        "stateful drafter keeps between requests (draft_state)",
        "bytes",
    ),
    Definition(
        "degenerate_share",
        "share of plain outputs with more than 20 % of their tokens in an 8-gram that occurred "
        "earlier in the same output",
        "1",
    ),
    Definition(
        "requests", "requests of the arm: ok, failed, skipped, paired with plain", "requests"
    ),
)

DEFINITIONS = {definition.name: definition for definition in _TABLE}
"""Every metric that ``measure_cell`` returns, in table order."""
