"""Requests of a recorded run, made again from suites, settings and recorded answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from specbench.core.arm import PLAIN
from specbench.core.manifest import Manifest, RecordId
from specbench.core.prompt import Message, RenderedPrompt
from specbench.core.request import Limits, Request, Sampling, Stops
from specbench.core.suite import Prompt
from specbench.core.trace import Trace
from specbench.engines.http.extra_fields import with_template_options
from specbench.engines.http.tokens import SERVER_TEMPLATE
from specbench.errors import SpecbenchError, UsageError
from specbench.experiment.schema import check
from specbench.results.read import Recorded
from specbench.suites.loader import load_suite
from specbench.suites.templates import messages_for_turn

FOR_TEMPLATE = frozenset({"tools", "chat_template_kwargs"})
"""Fields of a request that change its prompt and nothing of how it is decoded."""


class PromptDiffers(SpecbenchError):
    """A server made another number of tokens of a conversation than the reference does.

    Args:
        server, reference: tokens of the prompt on either side.
    """

    def __init__(self, server: int, reference: int) -> None:
        super().__init__(
            f"prompt differs: {server} against {reference} tokens (wrong chat template?)",
            "compare the server's chat template with the reference's",
        )
        self.server = server
        self.reference = reference


def by_server(manifest: Manifest) -> bool:
    """Whether conversations went to a server that rendered them itself."""
    route = manifest.engine.get("route")
    return manifest.identity.template_hash == SERVER_TEMPLATE or route == "chat"


def by_server_count(trace: Trace) -> int:
    """Tokens of the prompt as a server that rendered it counted them; 0 where nobody did.

    Where a tokenizer was at hand, ``prompt_tokens`` is what that makes of the conversation, and a
    server that disagrees is on record beside it.
    """
    said = trace.effective.get("prompt_tokens", trace.prompt_tokens)
    return said if isinstance(said, int) else trace.prompt_tokens


class Renderer(Protocol):
    """Whose chat template, tokens and stops a request is made with."""

    def render(
        self, messages: Sequence[Message], passed_on: Mapping[str, object] | None = None
    ) -> RenderedPrompt:
        """Apply the chat template and tokenise; raises SpecbenchError where that is refused."""
        ...

    def stops(self, strings: Sequence[str] = ()) -> Stops:
        """End-of-answer ids and the given strings."""
        ...


def run_prompts(manifest: Manifest) -> dict[tuple[str, str], Prompt]:
    """The prompts of a run's suites, by suite and id; call it before a reference loads.

    Raises:
        UsageError: a suite is not there, or not the one the run used.
    """
    sources = check(manifest.experiment, f"experiment of run {manifest.run}").workload.suites
    found: dict[tuple[str, str], Prompt] = {}
    for source, use in zip(sources, manifest.suites, strict=True):
        suite = load_suite(source)
        if suite.digest != use.digest:
            raise UsageError(
                f"suite {source} has changed since run {manifest.run}: its digest is "
                f"{suite.digest}, the manifest says {use.digest}",
                f"put version {use.version} of the suite back, or run the experiment again",
            )
        found |= {(use.name, prompt.id): prompt for prompt in suite.prompts}
    return found


def rebuild(
    recorded: Recorded,
    reference: Renderer,
    prompts: Mapping[tuple[str, str], Prompt],
    record: RecordId,
    trace: Trace,
) -> Request:
    """The request behind a record, as the runner built it.

    Args:
        recorded: the run, for its settings and the answers that later turns saw.
        reference: renders the prompt.
        prompts: from ``run_prompts``.
        record, trace: the record and its name.

    Raises:
        PromptDiffers: the server that rendered the prompt made another number of tokens of it.
        SpecbenchError: it cannot be rebuilt, or is not what was sent.
    """
    identity, key = recorded.manifest.identity, record.key
    prompt = prompts[key.suite, key.item]
    answers = _answers(recorded, record, prompt)
    if further := sorted(prompt.passed_on.keys() - FOR_TEMPLATE):
        fields = ", ".join(further)
        raise SpecbenchError(f"its request passed on {fields}, which a reference does not apply")
    messages = messages_for_turn(prompt, key.turn, answers)
    # Options of the template that hold for the whole run, as the engine merged them.
    experiment = check(recorded.manifest.experiment, f"experiment of run {recorded.manifest.run}")
    passed_on = with_template_options(prompt.passed_on, experiment.server.extra_body)
    rendered = reference.render(messages, passed_on) if passed_on else reference.render(messages)
    _check_prompt(recorded.manifest, rendered, trace)
    return Request(
        key=key,
        token_ids=tuple(rendered.token_ids),
        sampling=_sampling(recorded.manifest, key.temperature),
        limits=Limits(identity.max_new_tokens),
        stops=reference.stops(identity.stop),
        seed=trace.seed,
    )


def _check_prompt(manifest: Manifest, rendered: RenderedPrompt, trace: Trace) -> None:
    """Compare what the reference makes of a conversation with what the run sent."""
    count = len(rendered.token_ids)
    if by_server(manifest):
        counted = by_server_count(trace)
        if counted and counted != count:
            raise PromptDiffers(counted, count)
        return
    # Equal texts of unequal length are two tokenizers.
    if (rendered.digest, count) != (trace.prompt_hash, trace.prompt_tokens):
        raise SpecbenchError("prompt differs (template, tokenizer or suite changed)")


def _answers(recorded: Recorded, record: RecordId, prompt: Prompt) -> Sequence[str]:
    """The assistant turns that the request showed, as the runner chose them."""
    history = recorded.manifest.identity.history
    if history == "fixed":
        return prompt.recorded
    # Without a plain arm each arm has seen its own answers.
    has_plain = any(arm.name == PLAIN for arm in recorded.manifest.arms)
    arm = PLAIN if history == "plain" and has_plain else record.arm
    texts = []
    for turn in range(record.key.turn):
        shown = RecordId(replace(record.key, turn=turn), arm, record.concurrency)
        earlier = recorded.traces.get(shown)
        if earlier is None or not earlier.ok:
            raise SpecbenchError(f"turn {turn + 1} of arm {arm} has no recorded answer")
        texts.append(earlier.text)
    return texts


def _sampling(manifest: Manifest, temperature: float) -> Sampling:
    settings = next(s for s in manifest.identity.sampling if s["temperature"] == temperature)
    # The manifest holds all settings as floating-point numbers.
    others = {name: value for name, value in settings.items() if name != "top_k"}
    return Sampling(top_k=int(settings["top_k"]), **others)
