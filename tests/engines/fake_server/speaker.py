"""A script that talks: the table model behind the routes of several servers, with habits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from tests.engines.fake_server.answer import Answer, Received, refused, stream, whole
from tests.engines.fake_server.counter_page import CounterPage
from tests.engines.fake_server.speculation import Speculation, Spoken, speak
from tests.engines.fake_server.table_model import START, Settings, TableModel, tokenised
from tests.engines.fake_server.voices import Voice, llamacpp, openai, sglang

ROUTES: Mapping[str, Voice] = {
    "/v1/chat/completions": openai,
    "/v1/completions": openai,
    "/completion": llamacpp,
    "/generate": sglang,
}
SEED_BITS = 2**63


@dataclass(frozen=True, slots=True)
class Habits:
    """How this server differs from what it is asked.

    Attributes:
        temperature: used whatever is asked: 0 = greedy sold as sampling. None = as asked.
        ignores: request fields that it does not look at, so that its default holds: ``seed``,
            ``top_p``, ``temperature``, ``stop``, ``max_tokens``, ``stream``, ``stream_options``,
            ``return_token_ids``, ``logprobs``, ...
        refuses: request fields at which it answers 400 with the field's name.
        double_start: it puts a start token before prompts, also before ids (case E6).
        speculation: how it drafts.
        first_s, step_s: seconds to the first token, and from step to step.
    """

    temperature: float | None = None
    ignores: frozenset[str] = frozenset()
    refuses: frozenset[str] = frozenset()
    double_start: bool = False
    speculation: Speculation | None = None
    first_s: float = 0.0
    step_s: float = 0.0


@dataclass
class Speaker:
    """Answers POST requests of the OpenAI, vLLM, llama.cpp and SGLang routes, by their path.

    Attributes:
        model: the law it speaks.
        habits: see there; the default is an honest server.
        models: names that it serves; others are 404. Empty = all.
        counters: moved on with every request, under vLLM's and llama.cpp's names.
        said: what was really generated, by request number.
    """

    model: TableModel = field(default_factory=TableModel)
    habits: Habits = field(default_factory=Habits)
    models: tuple[str, ...] = ()
    counters: CounterPage | None = None
    said: dict[int, Spoken] = field(default_factory=dict)

    def __call__(self, received: Received) -> Answer:
        """The answer to one request."""
        asked = {k: v for k, v in received.body.items() if k not in self.habits.ignores}
        voice = ROUTES.get(received.path)
        named = asked.get("model")
        if voice is None:
            return refused(404, "Not Found")
        if self.models and named is not None and named not in self.models:
            return refused(404, f"The model `{named}` does not exist.")
        for name in sorted(self.habits.refuses & asked.keys()):
            return refused(400, f"Unsupported parameter: '{name}' is not supported.")
        prompt = prompt_of(asked)
        if self.habits.double_start:
            prompt = [START, *prompt]
        settings = settings_of(asked)
        if self.habits.temperature is not None:
            settings = replace(settings, temperature=self.habits.temperature)
        spoken = speak(
            self.model, prompt, settings, self._random(received, settings), self.habits.speculation
        )
        self.said[received.number] = spoken
        if self.counters is not None:
            _count(self.counters, spoken)
        events, document = voice(received.path, asked, spoken)
        if not asked.get("stream"):
            return whole(document, at_s=self.habits.first_s)
        return stream(*((self._at(step), data) for step, data in events))

    def _at(self, step: int) -> float:
        return self.habits.first_s + step * self.habits.step_s

    def _random(self, received: Received, settings: Settings) -> np.random.Generator:
        if settings.seed is None:
            return np.random.default_rng([1, received.number])
        return np.random.default_rng([0, settings.seed % SEED_BITS])


def prompt_of(asked: Mapping[str, object]) -> list[int]:
    """Ids of a prompt given as ids, text or messages; messages follow each other without marks."""
    sampled = asked.get("input_ids", asked.get("prompt", asked.get("text")))
    if isinstance(sampled, str):
        return tokenised(sampled)
    if isinstance(sampled, list):
        return [int(number) for number in sampled]
    messages = asked.get("messages")
    contents = [str(one["content"]) for one in messages] if isinstance(messages, list) else []
    return tokenised(" ".join(contents))


def settings_of(asked: Mapping[str, object]) -> Settings:
    """Sampling settings of a request, whatever names its server has for them."""
    nested = asked.get("sampling_params")
    given = {**asked, **(nested if isinstance(nested, dict) else {})}
    chosen: dict[str, object] = {}
    for ours, theirs in NAMES.items():
        for name in theirs:
            if given.get(name) is not None:
                chosen[ours] = given[name]
    stop = chosen.get("stop", ())
    chosen["stop"] = (stop,) if isinstance(stop, str) else tuple(stop)  # type: ignore[arg-type]
    # -1 means "off" to several servers
    if isinstance(top_k := chosen.get("top_k"), int):
        chosen["top_k"] = max(top_k, 0)
    return Settings(**chosen)  # type: ignore[arg-type]


NAMES: Mapping[str, tuple[str, ...]] = {
    "temperature": ("temperature",),
    "top_k": ("top_k",),
    "top_p": ("top_p",),
    "min_p": ("min_p",),
    "seed": ("sampling_seed", "seed"),
    "max_tokens": ("n_predict", "max_new_tokens", "max_completion_tokens", "max_tokens"),
    "stop": ("stop",),
}
"""Our name of a setting -> names that servers have for it."""


def _count(counters: CounterPage, spoken: Spoken) -> None:
    reason = "length" if spoken.finish == "length" else "stop"
    counters.add("vllm:request_success_total", finished_reason=reason)
    for prefix, produced in (("vllm:", "generation_tokens"), ("llamacpp:", "tokens_predicted")):
        counters.add(f"{prefix}prompt_tokens_total", len(spoken.prompt))
        counters.add(f"{prefix}{produced}_total", len(spoken.ids))
        drafts = spoken.drafts
        name = f"{prefix}spec_decode_num"
        counters.add(f"{name}_drafts_total", len(drafts))
        counters.add(f"{name}_draft_tokens_total", math.fsum(step.drafted for step in drafts))
        counters.add(f"{name}_accepted_tokens_total", math.fsum(step.accepted for step in drafts))
        for place in range(max((step.drafted for step in drafts), default=0)):
            got = sum(step.accepted > place for step in drafts)
            counters.add(f"{name}_accepted_tokens_per_pos_total", got, position=str(place))
