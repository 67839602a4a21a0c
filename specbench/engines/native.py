"""The native engine: one loaded target, the arms that run on it, and its KV pool."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

import torch

from specbench import catalog
from specbench.core.arm import ArmMemory, ArmSpec
from specbench.core.request import Request
from specbench.core.trace import Finish, Granularity, Tick, Trace, Window
from specbench.core.warm_up import is_warm_up
from specbench.decoding.loop import DecodeLoop
from specbench.decoding.schedule import IN_ORDER, Overlapped
from specbench.decoding.sequence import Sequence as DecodedSequence
from specbench.decoding.stops import StopChecker, token_cap
from specbench.drafters.build import BuildContext, Packed
from specbench.engines.on_target import OnTarget
from specbench.engines.scheduler import serve
from specbench.errors import SpecbenchError, UsageError
from specbench.models.detokenize import IncrementalText, full_text
from specbench.models.device import peak_bytes, recorder_for
from specbench.models.graphs.buckets import verified
from specbench.models.kv_pool import KVPool
from specbench.models.opened import OpenedTarget, open_target
from specbench.models.packed import PackedModel
from specbench.models.parallel.group import leave
from specbench.models.target import PackedTarget
from specbench.verify.captured import CapturedRule

OVERLAPPED = "overlapped"
"""``target.schedule`` under which the host does not wait for the device, ``decoding.schedule``."""


class NativeEngine(OnTarget):
    """Implements ``engines.protocol.Engine``.

    Args:
        target: the experiment's ``[target]`` table: model, revision, dtype, device, prepack,
            sampler, graphs, compile, template, system_policy, schedule, spans, evidence. An
            overlapped schedule collects no evidence unless told to: for that rows are read in
            every step.
        arms: what will run; drafts are loaded here, so that every failure comes before measuring.
    """

    name = "native"

    def __init__(self, target: Mapping[str, Any], arms: Sequence[ArmSpec]) -> None:
        super().__init__(open_target(target, 1))
        self._settings = target
        self._loaded = self._opened.loaded
        self._model = self._opened.model
        self.device = str(self._loaded.device)
        self._specs = {arm.name: arm for arm in arms}
        self._overlapped = target.get("schedule") == OVERLAPPED
        self._recorder = recorder_for(
            self._loaded.device, self._overlapped, bool(target.get("spans", True))
        )
        if self._model.graphs is not None:
            self._recorder.forwards = self._model.graphs.forwards
        self._pool: KVPool | None = None
        self._contexts: dict[str, BuildContext] = {}
        self._drafters: dict[str, Any] = {}
        self._loops: dict[str, DecodeLoop] = {}
        # A drafter says how many nodes its steps verify only once it is built.
        nodes = [self._build(arm) for arm in arms]
        self._opened = self._opened.at_width(1 + max(nodes, default=0))

    def _build(self, arm: ArmSpec) -> int:
        """Make an arm ready; returns the most nodes that its steps verify."""
        context = BuildContext(
            arm.name,
            self._loaded,
            self._model,
            self._opened.vocabulary,
            self._opened.prepack,
            self._overlapped,
            bool(self._settings.get("compile")),
            self._opened.kernels,
        )
        factory: Any = catalog.resolve("drafters", arm.drafter)
        unknown = sorted(set(arm.drafter_options) - set(factory.info.options))
        if unknown:
            raise UsageError(
                f"arm {arm.name}: drafter {arm.drafter} has no option {unknown[0]!r}",
                catalog.nearest(unknown[0], list(factory.info.options) or ["(none)"]),
            )
        drafter = factory.build(dict(arm.drafter_options), context)
        # Plain decoding draws from the position-keyed stream: its output is the one that
        # target_match reproduces token for token.
        listed: Any = catalog.resolve("rules", "target_match" if arm.plain else arm.rule)
        rule = listed.configure({} if arm.plain else arm.rule_options, arm.k)
        graphs = self._model.graphs
        if graphs is not None and rule.info.device_only:
            rule = CapturedRule(rule, graphs)
        self._contexts[arm.name] = context
        self._drafters[arm.name] = drafter
        self._loops[arm.name] = DecodeLoop(
            PackedTarget(self._model, self._loaded.device, self._opened.kernels),
            drafter,
            rule,
            arm.k,
            self._recorder,
            bool(self._settings.get("evidence", not self._overlapped)),
            Overlapped() if self._overlapped else IN_ORDER,
        )
        context.check_width(drafter.feeds(arm.k))
        nodes: int = drafter.nodes(arm.k)
        return nodes

    def describe(self) -> dict[str, object]:
        """Models, hashes, numerics and the self-check, for the manifest."""
        return {
            "engine": self.name,
            **self._opened.facts(),
            "drafts": {
                name: [draft.facts for draft in context.loaded]
                for name, context in self._contexts.items()
                if context.loaded
            },
            **({} if self._model.graphs is None else {"captures": self._model.graphs.facts()}),
            "schedule": OVERLAPPED if self._overlapped else "in-order",
            "torch_threads": torch.get_num_threads(),
        }

    @property
    def packed_model(self) -> PackedModel:
        """The target's packed forward, for measuring it alone."""
        return self._model

    @property
    def pool_bytes(self) -> int:
        """Bytes of the KV pool as it stands, all owners."""
        return 0 if self._pool is None else self._pool.nbytes

    def memory(self, arm: str) -> ArmMemory:
        """Weights and KV bytes of an arm; an early exit has neither of its own."""
        loaded = self._contexts[arm].loaded
        # Zero would say that a drafter keeps nothing; one that does not tell is not known.
        unsaid = None if self._stateful(arm) else 0
        state = getattr(self._drafters[arm], "state_bytes", unsaid)
        return ArmMemory(
            self._loaded.weight_bytes,
            sum(draft.weight_bytes for draft in loaded),
            self._model.kv_bytes,
            sum(draft.kv_bytes for draft in loaded),
            peak_bytes(self._loaded.device),
            state,
        )

    def warm_up(self, arm: str, requests: Sequence[Request], concurrency: int) -> None:
        """Decode once; traces and ticks are dropped.

        Only here are forwards captured: a capture takes longer than many steps.

        Raises:
            SpecbenchError: a request failed; measuring this arm would only collect failures.
        """
        before = list(self._recorder.drain())
        try:
            with closing(self._outside(arm, requests, concurrency, capturing=True)) as traces:
                failed = next((trace for trace in traces if not trace.ok), None)
            self._rehearse(arm, concurrency)
        finally:
            self._recorder.drain()
            self._recorder.restore(before)
        if failed is not None:
            raise SpecbenchError(
                f"arm {arm} failed while warming up: {failed.error}",
                "lower --concurrency or --max-new-tokens if memory is short",
            )

    def _stateful(self, arm: str) -> bool:
        """Whether the arm's drafter carries anything from one request to the next."""
        info = self._drafters[arm].info
        return bool(info.facts(self._specs[arm].drafter_options).stateful)

    def _unlearn(self, arm: str) -> None:
        """What a stateful drafter learnt so far is not part of what comes next."""
        if self._stateful(arm):
            self._drafters[arm].reset()

    def run(self, arm: str, requests: Sequence[Request], concurrency: int) -> Iterator[Trace]:
        """Decode all requests with one arm; those of warm-up teach its drafter nothing."""
        warming = any(is_warm_up(request.key) for request in requests)
        decode = self._outside if warming else self._decode
        return decode(arm, requests, concurrency)

    def _rehearse(self, arm: str, concurrency: int) -> None:
        """Capture what verifications the warm-up's prompts did not bring about."""
        if self._model.graphs is None or self._pool is None:
            return
        drafter, spec = self._drafters[arm], self._specs[arm]
        tree = drafter.info.facts(spec.drafter_options).tree
        nodes = drafter.nodes(spec.k) if tree else None
        for bucket in verified(concurrency, self._pool.slabs, spec.k, nodes):
            self._model.capture(bucket, drafter.taps)

    def _outside(
        self, arm: str, requests: Sequence[Request], concurrency: int, *, capturing: bool = False
    ) -> Generator[Trace, None, None]:
        """Decode outside the measurement: of this the drafter keeps nothing, even if broken off."""
        graphs = self._model.graphs
        try:
            if graphs is not None:
                graphs.capturing = capturing
            yield from self._decode(arm, requests, concurrency)
        finally:
            if graphs is not None:
                graphs.capturing = False
            self._unlearn(arm)

    def _decode(self, arm: str, requests: Sequence[Request], concurrency: int) -> Iterator[Trace]:
        going = []
        for request in requests:
            if token_cap(request.limits, len(request.token_ids)) > 0:
                going.append(request)
            else:
                yield self._trace(request, arm, concurrency)
        if not going:
            return
        drafter = self._drafters[arm]
        pool = self._pool_for(going, concurrency, drafter.room(self._specs[arm].k))

        def admit(request: Request) -> DecodedSequence:
            return self._admit(request, arm, concurrency, pool)

        def release(rows: Sequence[DecodedSequence]) -> None:
            drafter.release(rows)
            for row in rows:
                pool.release(row.slab)

        for row in serve(self._loops[arm], going, concurrency, admit, release):
            if drafter.vocabulary is not None:
                row.trace.outside_draft = sum(
                    token not in drafter.vocabulary for token in row.trace.output_ids
                )
            text = full_text(self._loaded.tokenizer, row.trace.output_ids)
            row.trace.text = text[: row.stops.text_end]
            yield row.trace

    def _admit(self, request: Request, arm: str, concurrency: int, pool: KVPool) -> DecodedSequence:
        stops = StopChecker(
            request.stops,
            request.limits,
            len(request.token_ids),
            IncrementalText(self._loaded.tokenizer) if request.stops.strings else None,
        )
        slab = pool.admit(len(request.token_ids) + stops.cap)
        return DecodedSequence(request, slab, self._trace(request, arm, concurrency), stops)

    def _trace(self, request: Request, arm: str, concurrency: int) -> Trace:
        return Trace(
            key=request.key,
            arm=arm,
            concurrency=concurrency,
            unit="",
            granularity=Granularity.STEP,
            seed=request.seed,
            prompt_tokens=len(request.token_ids),
            prompt_hash=_hash_ids(request.token_ids),
            start_ns=self._recorder.now(),
            finish=Finish.LENGTH,
        )

    def _pool_for(self, requests: Sequence[Request], concurrency: int, drafted: int) -> KVPool:
        """A pool with room for the largest request and its drafts, kept while it fits."""
        slabs = min(concurrency, len(requests))
        longest = max(n + token_cap(r.limits, n) for r in requests for n in [len(r.token_ids)])
        need = longest + drafted + 1
        pool = self._pool
        if pool is None or pool.slabs < slabs or pool.capacity < need:
            if pool is not None:
                # One that shrank on one side would soon be replaced again.
                slabs, need = max(slabs, pool.slabs), max(need, pool.capacity)
            # The old pool goes first: both together need not fit.
            self.lend()
            pool = self._opened.new_pool(slabs, need)
            for context in self._contexts.values():
                context.use(pool)
            self._pool = pool
            if self._model.graphs is not None:
                self._model.graphs.renew()
        return pool

    def lend(self) -> OpenedTarget:
        """The target for others to run, with pools of their own; this engine makes a new one then.

        Not while ``run`` is being read.
        """
        for model in self._models():
            model.forget()
        self._pool = None
        return self._opened

    def _models(self) -> list[Packed]:
        return [self._model, *(m for c in self._contexts.values() for m in c.models)]

    def begin(self, arms: Sequence[str], start: int) -> Mapping[str, Mapping[str, object]]:
        """Nothing to start: all arms live in this process. Drafters begin knowing nothing."""
        for arm in arms:
            self._unlearn(arm)
        return {}

    def end(self) -> None:
        """Nothing to stop before ``close``."""

    def drain_windows(self) -> Sequence[Window]:
        """No counters: every step is recorded."""
        return ()

    def drain_ticks(self) -> list[Tick]:
        """Ticks since the last call."""
        return self._recorder.drain()

    def close(self) -> None:
        """Drop drafts and KV; the target goes with the engine object."""
        self.lend()
        if self._model.leader is not None:
            self._model.leader.stop()
            leave()
        self._loops.clear()
        self._drafters.clear()
        self._contexts.clear()


def open_engine(target: Mapping[str, Any], arms: Sequence[ArmSpec]) -> NativeEngine:
    """The catalogue's factory."""
    return NativeEngine(target, arms)


def _hash_ids(ids: Sequence[int]) -> str:
    return hashlib.sha256(",".join(map(str, ids)).encode()).hexdigest()
