"""What an experiment of the native engine takes of its device's memory, before anything loads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from specbench.core.arm import ArmSpec
from specbench.core.suite import Prompt
from specbench.errors import SpecbenchError
from specbench.experiment.arms import DrafterFacts, resolved
from specbench.experiment.prepare import Prepared
from specbench.experiment.workload import Target
from specbench.models.heads.layouts.llama_config import text_config
from specbench.models.locate import UNTRAINED, locate
from specbench.models.quant.settings import Quant, quant_of
from specbench.models.shapes.draft import draft_of
from specbench.models.shapes.find import Configured, configuration
from specbench.models.shapes.read import read_shape
from specbench.models.shapes.stored import Wanted, read_precision
from specbench.models.token_counts import counts
from specbench.roofline.memory import Stored, kv_token_bytes, weight_bytes
from specbench.roofline.need import Held, Need
from specbench.suites.messages import text_of
from specbench.suites.templates import messages_for_turn

TEMPLATE = 32
"""Tokens that a chat template adds to a conversation, about."""
COPIES = 3
"""Logits of a step in float32, their probabilities and what sampling makes of them, about."""
BITS = {"int8": 8, "int4": 4}
"""Stored bits of quantised layers; scales beside them are left out."""


@dataclass(frozen=True, slots=True)
class Reckoned:
    """A need, and what is not in it because its files do not say what it takes."""

    need: Need
    left_out: tuple[str, ...] = ()


def reckon(prepared: Prepared, target: Target | None = None) -> Reckoned | None:
    """What a run takes; None where the target's configuration cannot be read here.

    Args:
        prepared: of the native engine.
        target: another [target] table than the experiment's, to see what it would take.
    """
    target = target or prepared.experiment.target
    try:
        found = configured(target.model, target.revision)
        stored = _stored(found, target.dtype, target.quantised)
    except SpecbenchError:
        return None
    whole = _held(target.model, stored, target.quantised)
    held, left_out = [_share(whole, target.tensor_parallel)], []
    for arm in prepared.arms:
        try:
            held += _drafts(arm, target, found, stored)
        except SpecbenchError:
            left_out.append(f"what arm {arm.name} drafts with")
    load = _load(prepared, found)
    nodes = 1 + max(arm.k for arm in prepared.arms)
    need = Need(
        tuple(held),
        load.requests,
        load.least,
        load.answer,
        load.about,
        # Captured forwards have a slab of nobody.
        spare=int(target.graphs),
        workspace=_workspace(target),
        logits=COPIES * 4.0 * load.requests * nodes * stored[0].output_rows,
    )
    return Reckoned(need, tuple(left_out))


def configured(name: str, revision: object) -> Configured:
    """The configuration of a model or head that an experiment names.

    Raises:
        UsageError, PrerequisiteError: as ``locate`` and ``configuration``.
    """
    path = locate(name, revision=revision if isinstance(revision, str) else None).path
    return replace(configuration(name if path is None else str(path)), name=name)


def _stored(found: Configured, dtype: str, quant: Quant) -> Stored:
    wanted = Wanted(None if dtype == "auto" else dtype, None, BITS.get(quant.scheme))
    precision = read_precision(found.config, wanted, found.name)
    return read_shape(found.config, found.name), precision


def _held(name: str, stored: Stored, quant: Quant) -> Held:
    shape, precision = stored
    weights = weight_bytes(shape, precision)
    if quant.head and quant.on and shape.own_output:
        weights -= shape.output * (precision.end_bits - BITS[quant.scheme]) / 8
    return Held(name, weights, kv_token_bytes(shape, precision))


def _share(whole: Held, processes: int) -> Held:
    """What one of several processes holds of a target at least: some layers are kept whole."""
    if processes == 1:
        return whole
    name = f"1/{processes} of {whole.name}"
    return Held(name, whole.weights / processes, whole.row / processes)


def _drafts(arm: ArmSpec, target: Target, found: Configured, stored: Stored) -> Iterator[Held]:
    """What an arm loads of its own. SpecbenchError where that cannot be told."""
    options = dict(arm.drafter_options)
    several, dtype = options.get("models"), str(options.get("dtype") or target.dtype)
    names = several if isinstance(several, list) else [options.get("model")]
    for name in names:
        if name is None and not _loads(arm):
            continue
        if not isinstance(name, str) or name == UNTRAINED:
            raise SpecbenchError(f"arm {arm.name}: a head without a file of its own")
        own = configured(name, options.get("revision"))
        beside = stored[0], read_precision(found.config, Wanted(dtype), found.name)
        shape, precision = draft_of(str(own.folder), found, beside, Wanted(dtype))
        quant = quant_of(options, f"arm {arm.name}")
        if quant.on:
            precision = replace(precision, matrix_bits=BITS[quant.scheme])
        yield _held(f"{name} (arm {arm.name})", (shape, precision), quant)


def _loads(arm: ArmSpec) -> bool:
    """Whether a drafter without a named model reads one: a head of the target's own folder."""
    info = cast(DrafterFacts, resolved("drafters", arm.drafter).info)  # type: ignore[attr-defined]
    return info.needs_model or info.kv == "own"


@dataclass(frozen=True, slots=True)
class _Load:
    """Of a suite, see ``Need``."""

    requests: int
    least: int
    answer: int
    about: int


def _load(prepared: Prepared, found: Configured) -> _Load:
    """The largest of all suites."""
    workload = prepared.experiment.workload
    limit = _context(found.config, prepared.conditions.context)
    most, drafted = workload.max_new_tokens, max(arm.k for arm in prepared.arms) + 1
    loads = []
    for prompts in prepared.selection.values():
        first, whole = _tokens(found.folder, prompts)
        # What has no room for an answer is not sent.
        sent = [(n, min(most, limit - n)) for n in first if n < limit]
        longest, answer = max(sent, key=sum, default=(0, 0))
        turns = [1 if workload.history == "fixed" else len(prompt.turns) for prompt in prompts]
        ends = [n + TEMPLATE + count * most for n, count in zip(whole, turns, strict=True)]
        requests = min(max(workload.concurrency), len(prompts))
        about = min(max(ends), limit) + drafted
        loads.append(_Load(requests, longest + answer + 1, answer, about))
    return max(loads, key=lambda load: load.requests * load.least)


def _tokens(folder: Path | None, prompts: Sequence[Prompt]) -> tuple[list[int], list[int]]:
    """Tokens of every first question, 1 where they cannot be counted, and of all that is said."""
    first = [prompt.turns[0] for prompt in prompts]
    whole = ["\n".join(map(text_of, _said(prompt))) for prompt in prompts]
    found, counted = counts(folder or Path(), [*first, *whole])
    return found[: len(first)] if counted else [1] * len(first), found[len(first) :]


def _said(prompt: Prompt) -> list[Mapping[str, object]]:
    """The whole conversation, with the answers that are known."""
    last = len(prompt.turns) - 1
    answers = [*prompt.recorded, *[""] * last][:last]
    return [*messages_for_turn(prompt, last, answers)]


def _context(config: Mapping[str, object], declared: int | None) -> int:
    """Tokens of the longest sequence, as ``models.sequence_ends`` reads them."""
    text = text_config(config)
    named = (text.get(key) for key in ("max_position_embeddings", "n_positions", "max_seq_len"))
    own = next((value for value in named if isinstance(value, int)), None)
    return min((limit for limit in (own, declared) if limit is not None), default=1 << 30)


def _workspace(target: Target) -> float:
    if target.attention != "flashinfer":
        return 0.0
    from specbench.models.attention.flashinfer import WORKSPACE_BYTES

    return WORKSPACE_BYTES
