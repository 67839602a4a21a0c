"""The engine around ``generate``: one target, one request at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
import transformers
from transformers import GenerationConfig

from specbench.core.arm import ArmMemory, ArmSpec
from specbench.core.full_memory import out_of_memory
from specbench.core.prompt import Message, RenderedPrompt
from specbench.core.request import Request, Stops
from specbench.core.trace import Finish, Granularity, Tick, Trace, Window
from specbench.decoding.stops import StopChecker, token_cap
from specbench.decoding.timing import TickRecorder
from specbench.engines.transformers_assisted.arms import check_conditions, unsupported
from specbench.engines.transformers_assisted.drafts import Draft, open_draft
from specbench.engines.transformers_assisted.settings import generation_config
from specbench.engines.transformers_assisted.watch import Watch, drafts_seen
from specbench.errors import SpecbenchError, UsageError
from specbench.models import vocabulary
from specbench.models.detokenize import IncrementalText, full_text
from specbench.models.device import clock_for, peak_bytes
from specbench.models.linear import pack_linears
from specbench.models.load import LoadedModel, load_model
from specbench.models.locate import locate
from specbench.models.opened import model_facts
from specbench.models.packed import layer_geometry
from specbench.models.quiet import quiet
from specbench.suites.templates import render


class AssistedEngine:
    """Implements ``engines.protocol.Engine`` over transformers' assisted generation.

    Weights, template, end tokens and packed CPU linears are those of the native engine; attention
    and KV are the library's. It records steps and ticks but no evidence: the library shows no law
    that tokens were drawn from, so fidelity is judged by replay (``specbench fidelity``).

    Args:
        target: see ``engine.AssistedFactory``.
        arms: what will run; drafts are loaded here, so that every failure comes before measuring.
    """

    name = "transformers_assisted"

    def __init__(self, target: Mapping[str, Any], arms: Sequence[ArmSpec]) -> None:
        self._settings = target
        name = str(target["model"])
        self._loaded = load_model(
            locate(name, revision=target.get("revision")),
            dtype=str(target.get("dtype", "float32")),
            device=str(target.get("device", "cpu")),
        )
        self._model = self._loaded.model
        prepack = bool(target.get("prepack", True)) and self._loaded.device.type == "cpu"
        rows = self._model.get_input_embeddings().num_embeddings
        padding = vocabulary.padding_mask(rows, vocabulary.real_ids(self._loaded.tokenizer))
        self._suppressed = padding.nonzero().flatten().tolist()
        self.device = str(self._loaded.device)
        self.context_limit = self._loaded.context_limit
        self._recorder = TickRecorder(
            clock_for(self._loaded.device), bool(target.get("spans", True))
        )
        self._drafts = {arm.name: open_draft(arm, self._loaded, prepack) for arm in arms}
        self._packed_linears = pack_linears(self._model) if prepack else 0

    def describe(self) -> dict[str, object]:
        """Models, hashes, numerics and the library's version, for the manifest."""
        return {
            "engine": self.name,
            "transformers": transformers.__version__,
            "target": model_facts(self._loaded),
            "device": self.device,
            "attention": self._model.config._attn_implementation,
            "packed_linears": self._packed_linears,
            "drafts": {
                name: [model_facts(draft.loaded)]
                for name, draft in self._drafts.items()
                if draft.loaded is not None
            },
            "torch_threads": torch.get_num_threads(),
        }

    def render(
        self, messages: Sequence[Message], passed_on: Mapping[str, object] | None = None
    ) -> RenderedPrompt:
        """Chat template and tokenisation, see ``suites.templates.render``."""
        return render(
            self._loaded.tokenizer,
            messages,
            template=self._settings.get("template"),
            system_policy=self._settings.get("system_policy", "merge-into-user"),
            passed_on=passed_on,
        )

    def stops(self, strings: Sequence[str] = ()) -> Stops:
        """The target's end-of-answer ids and the given strings."""
        return Stops(self._loaded.eos_ids, tuple(strings))

    def memory(self, arm: str) -> ArmMemory:
        """Weights and KV bytes of an arm; an early exit keeps KV of its layers a second time."""
        draft = self._drafts[arm]
        own = draft.loaded
        kv = _kv_bytes(own) if own is not None else _kv_bytes(self._loaded, draft.layers)
        return ArmMemory(
            self._loaded.weight_bytes,
            own.weight_bytes if own is not None else 0,
            _kv_bytes(self._loaded),
            kv,
            peak_bytes(self._loaded.device),
            0,
        )

    def warm_up(self, arm: str, requests: Sequence[Request], concurrency: int) -> None:
        """Decode once; traces and ticks are dropped.

        Raises:
            UsageError: the arm cannot decode with these settings.
            SpecbenchError: a request failed; measuring this arm would only collect failures.
        """
        for request in requests:
            if reason := self._unsupported(arm, request):
                raise UsageError(f"arm {arm}: {reason}", "leave it out, or use engine = 'native'")
        before = self._recorder.drain()
        for trace in self.run(arm, requests, concurrency):
            if not trace.ok:
                raise SpecbenchError(
                    f"arm {arm} failed while warming up: {trace.error}",
                    "try the arm alone with few prompts, or use engine = 'native'",
                )
        self._recorder.drain()
        self._recorder.restore(before)

    def run(self, arm: str, requests: Sequence[Request], concurrency: int) -> Iterator[Trace]:
        """Decode requests one after another.

        Raises:
            UsageError: more than one at a time was asked for.
        """
        check_conditions((), [concurrency])
        for request in requests:
            trace = self._trace(request, arm)
            if token_cap(request.limits, len(request.token_ids)) > 0:
                self._decode(trace, request, self._drafts[arm])
            yield trace

    def _decode(self, trace: Trace, request: Request, draft: Draft) -> None:
        """Decode one request into its trace."""
        strings = request.stops.strings
        detokenizer = IncrementalText(self._loaded.tokenizer) if strings else None
        stops = StopChecker(request.stops, request.limits, trace.prompt_tokens, detokenizer)
        arm = draft.arm
        watch = Watch(trace, stops, self._recorder, arm.k, arm.drafter == "ngram")
        reason = self._unsupported(arm.name, request)
        if not request.token_ids:
            reason = "a prompt without tokens"
        if reason:
            trace.finish, trace.error = Finish.ERROR, reason
            return
        try:
            self._generate(request, stops.cap, draft, watch)
            if watch.finish is None:
                raise RuntimeError("generate returned before the output had ended")
        except Exception as error:
            # Whatever the library raises belongs to this request, and the others go on.
            _fail(trace, error)
        trace.text = full_text(self._loaded.tokenizer, trace.output_ids)[: stops.text_end]

    def _generate(self, request: Request, cap: int, draft: Draft, watch: Watch) -> None:
        greedy = request.sampling.greedy
        # The checkpoint's own settings would fill whatever a request leaves open.
        self._model.generation_config = GenerationConfig()
        arguments = draft.arguments(greedy)
        config = generation_config(request, cap, self._suppressed, draft.config)
        ids = torch.tensor([request.token_ids], device=self._loaded.device)
        own = [self._loaded.device] if self._loaded.device.type == "cuda" else []
        with quiet(), torch.random.fork_rng(devices=own), drafts_seen(self._model, watch):
            torch.manual_seed(request.seed)
            watch.start()
            self._model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                generation_config=config,
                stopping_criteria=transformers.StoppingCriteriaList([watch]),
                **arguments,
            )

    def _unsupported(self, arm: str, request: Request) -> str:
        greedy = request.sampling.greedy
        return unsupported(request.sampling) or self._drafts[arm].unsupported(greedy)

    def _trace(self, request: Request, arm: str) -> Trace:
        return Trace(
            key=request.key,
            arm=arm,
            concurrency=1,
            unit="",
            granularity=Granularity.STEP,
            seed=request.seed,
            prompt_tokens=len(request.token_ids),
            prompt_hash="",
            start_ns=self._recorder.now(),
            finish=Finish.LENGTH,
        )

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
        return self._recorder.drain()

    def close(self) -> None:
        """Drop the drafts; the target goes with the engine object."""
        self._drafts.clear()


def _fail(trace: Trace, error: Exception) -> None:
    """End a request with the reason; tokens it had stay in its trace, and it is not averaged."""
    trace.finish = Finish.OOM if out_of_memory(error) else Finish.ERROR
    first_line = (str(error).strip() or "no message").splitlines()[0]
    trace.error = f"{type(error).__name__}: {first_line}"


def _kv_bytes(model: LoadedModel, layers: int | None = None) -> int:
    """Bytes of keys and values per token, of all layers or of the first few."""
    config = model.config.get_text_config()
    layer = layer_geometry(config)
    count = config.num_hidden_layers if layers is None else layers
    return int(layer.kv_heads * (layer.key_size + layer.value_size) * count * model.dtype.itemsize)
