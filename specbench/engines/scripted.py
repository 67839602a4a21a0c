"""An engine that plays scripted arms on a wound clock: no model, the same numbers every time.

It is how the measurement is tested and how a report can be tried without a model. The target is an
integer model (the next id is a hash of those before it), so arms agree exactly at temperature 0.

Script keys, all optional, under ``[target.options]``:
  step_ms        arm -> milliseconds of a decode step (default 10)
  prefill_ms     milliseconds of a prefill (default 20)
  accepted       arm -> accepted tokens of successive steps, repeated; at most the arm's k
  length         output tokens before EOS (default: up to the limit)
  fail           "suite/item/turn/arm" -> "oom", "error" or "raise"
  diverge        arm -> output position from which its tokens differ from plain's
  margin         top-2 margin in logits that is recorded at temperature 0 (default: none is)
  context        context limit in tokens (default 4096)
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from specbench.core.arm import ArmMemory, ArmSpec
from specbench.core.prompt import Message, RenderedPrompt
from specbench.core.request import Request, Stops
from specbench.core.trace import (
    Cut,
    Evidence,
    Finish,
    Granularity,
    Lane,
    ShortDraft,
    Span,
    Tick,
    TickKind,
    Trace,
    Window,
)

NS_PER_MS = 1_000_000
VOCABULARY = 50_000


def open_engine(target: Mapping[str, object], arms: Sequence[ArmSpec]) -> ScriptedEngine:
    """The factory behind the catalogue name."""
    script = target.get("options", {})
    assert isinstance(script, Mapping)
    return ScriptedEngine({arm.name: arm for arm in arms}, script)


@dataclass(slots=True)
class ScriptedEngine:
    """See the module's text. ``calls`` lists every request that was run, warm-up left out."""

    arms: Mapping[str, ArmSpec]
    script: Mapping[str, Any] = field(default_factory=dict)
    name: str = "scripted"
    device: str = "cpu"
    now_ns: int = 0
    calls: list[tuple[str, Request]] = field(default_factory=list)
    _ticks: list[Tick] = field(default_factory=list)
    _count: int = 0

    @property
    def context_limit(self) -> int:
        """Largest prompt plus output length."""
        return int(self.script.get("context", 4096))

    def describe(self) -> Mapping[str, object]:
        """Fixed facts."""
        return {"target": {"revision": "scripted", "weight_hash": "scripted"}}

    def render(
        self, messages: Sequence[Message], passed_on: Mapping[str, object] | None = None
    ) -> RenderedPrompt:
        """One id per word, an end token after each assistant answer; empty text has no ids."""
        text = "\n".join(
            f"{m['content']} <end>" if m["role"] == "assistant" else m["content"] for m in messages
        )
        ids = tuple(_hash(word) for word in text.split())
        digest = hashlib.sha256(text.encode()).hexdigest()
        return RenderedPrompt(ids, text, digest, template="none")

    def stops(self, strings: Sequence[str] = ()) -> Stops:
        """Id 0 ends an answer."""
        return Stops((0,), tuple(strings))

    def memory(self, arm: str) -> ArmMemory:
        """A million bytes of weights, a tenth of that for a draft."""
        drafts = not self.arms[arm].plain
        return ArmMemory(1_000_000, 100_000 if drafts else 0, 1_000, 100 if drafts else 0)

    def warm_up(self, arm: str, requests: Sequence[Request], concurrency: int) -> None:
        """Play the requests and forget them."""
        for _ in self._play(arm, requests, concurrency):
            pass
        self._ticks.clear()

    def run(self, arm: str, requests: Sequence[Request], concurrency: int) -> Iterator[Trace]:
        """Play the requests in groups of ``concurrency``."""
        for trace, request in self._play(arm, requests, concurrency):
            self.calls.append((arm, request))
            yield trace

    def begin(self, arms: Sequence[str], start: int) -> Mapping[str, Mapping[str, object]]:
        """Nothing to start: all arms live in this process."""
        return {}

    def end(self) -> None:
        """Nothing to stop before ``close``."""

    def drain_windows(self) -> Sequence[Window]:
        """No counters: every step is recorded."""
        return ()

    def drain_ticks(self) -> Sequence[Tick]:
        """Ticks since the last call."""
        drained, self._ticks = self._ticks, []
        return drained

    def close(self) -> None:
        """Nothing to free."""

    def _play(
        self, arm: str, requests: Sequence[Request], concurrency: int
    ) -> Iterator[tuple[Trace, Request]]:
        for start in range(0, len(requests), concurrency):
            group = requests[start : start + concurrency]
            begin = self.now_ns
            ends = []
            for request in group:
                self.now_ns = begin
                trace = self._decode(arm, request, concurrency)
                ends.append(self.now_ns)
                yield trace, request
            self.now_ns = max(ends)

    def _decode(self, arm: str, request: Request, concurrency: int) -> Trace:
        key = request.key
        trace = Trace(
            key=key,
            arm=arm,
            concurrency=concurrency,
            unit="",
            granularity=Granularity.STEP,
            seed=request.seed,
            prompt_tokens=len(request.token_ids),
            prompt_hash="",
            start_ns=self.now_ns,
        )
        failure = self.script.get("fail", {}).get(f"{key.suite}/{key.item}/{key.turn}/{arm}")
        if failure == "raise":
            raise RuntimeError("CUDA out of memory")
        if failure:
            trace.finish = Finish.OOM if failure == "oom" else Finish.ERROR
            trace.error = f"scripted {failure}"
            return trace
        output = self._output(arm, request)
        self._emit(trace, float(self.script.get("prefill_ms", 20)), TickKind.PREFILL, output[:1])
        self._steps(trace, arm, output[1:])
        trace.finish = Finish.EOS if output[-1] == 0 else Finish.LENGTH
        trace.text = " ".join(f"w{token}" for token in trace.output_ids if token)
        if request.sampling.greedy and "margin" in self.script:
            trace.evidence = _margins(len(output), float(self.script["margin"]))
        return trace

    def _longest(self, request: Request) -> int:
        context = request.limits.context or self.context_limit
        return min(request.limits.max_new_tokens, context - len(request.token_ids))

    def _output(self, arm: str, request: Request) -> list[int]:
        longest = self._longest(request)
        state = hashlib.sha256(repr(request.token_ids).encode())
        if not request.sampling.greedy:
            state.update(f"{request.seed}/{request.sampling.temperature}".encode())
        stop = int(self.script.get("length", longest + 1))
        differs = int(self.script.get("diverge", {}).get(arm, longest + 1))
        output = []
        for position in range(longest):
            word = f"{state.hexdigest()}/{position}"
            word += f"/{arm}" if position >= differs else ""
            output.append(0 if position == stop - 1 else _hash(word))
            if output[-1] == 0:
                break
        return output

    def _steps(self, trace: Trace, arm: str, rest: Sequence[int]) -> None:
        spec = self.arms[arm]
        pattern = self.script.get("accepted", {}).get(arm, [0])
        step_ms = float(self.script.get("step_ms", {}).get(arm, 10))
        steps, done, index = trace.steps, 0, 0
        while done < len(rest):
            wanted = min(int(pattern[index % len(pattern)]), spec.k)
            committed = min(wanted + 1, len(rest) - done)
            cut = committed < wanted + 1
            eos = done + committed == len(rest) and rest[-1] == 0
            accepted = committed if cut else wanted
            steps.tick.append(self._count)
            steps.proposed.append(spec.k)
            steps.verified.append(spec.k)
            steps.judged.append(min(spec.k, committed) if cut else spec.k)
            steps.accepted.append(accepted)
            steps.committed.append(committed)
            steps.cut.append((Cut.EOS if eos else Cut.LENGTH) if cut else Cut.NONE)
            steps.short_draft.append(ShortDraft.NONE if spec.k else ShortDraft.OFF)
            self._emit(trace, step_ms, TickKind.DECODE, rest[done : done + committed])
            done += committed
            index += 1

    def _emit(self, trace: Trace, ms: float, kind: TickKind, tokens: Sequence[int]) -> None:
        start = self.now_ns
        self.now_ns += round(ms * NS_PER_MS)
        phase = "prefill" if kind is TickKind.PREFILL else "verify"
        span = Span(phase, Lane.HOST, start, self.now_ns)
        size = len(tokens)
        self._ticks.append(
            Tick(self._count, kind, 1, size, size, False, start, self.now_ns, (span,))
        )
        self._count += 1
        trace.output_ids.extend(tokens)
        trace.arrivals.t_ns.append(self.now_ns)
        trace.arrivals.tokens.append(size)


def _margins(tokens: int, margin: float) -> Evidence:
    known: dict[str, list[Any]] = {f.name: [None] * tokens for f in fields(Evidence)}
    known |= {"position": list(range(tokens)), "drafted": [0] * tokens}
    return Evidence(**known | {"margin": [margin] * tokens, "runner_up": [0] * tokens})


def _hash(word: str) -> int:
    digest = hashlib.sha256(word.encode()).digest()
    return 1 + int.from_bytes(digest[:4], "big") % (VOCABULARY - 1)
