"""What a run is: identity (must match to compare), factors (meant to vary) and provenance.

The manifest is written before the first request is sent, so that a run that dies still says what
it was. Digests are over canonical JSON, so the order of keys never matters.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

from specbench.core.request import RequestKey
from specbench.core.trace import Finish, Trace

SCHEMA_VERSION = 1
"""Version of the result files; a change of any field's meaning raises it."""

UNKNOWN = "unknown"
"""A provenance field that the engine could not tell; never equal to a known value."""

UNQUANTISED = "none"
"""How a model is named whose weights were left as they are."""


def canonical(value: object) -> str:
    """JSON text in which equal values are equal strings."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def digest(value: object) -> str:
    """SHA-256 of ``canonical(value)``, in hex."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


class RecordId(NamedTuple):
    """Names one record of a run; a finished run holds each exactly once."""

    key: RequestKey
    arm: str
    concurrency: int


@dataclass(frozen=True, slots=True)
class SuiteUse:
    """A suite as a run used it: which version, which split, which prompts."""

    name: str
    version: str
    digest: str
    split: str
    items: int
    turns: int
    items_digest: str


@dataclass(frozen=True, slots=True)
class Identity:
    """Everything that must be equal before two runs are compared.

    ``sampling`` has one entry per temperature. ``arrival`` is the arrival pattern of requests.
    ``quant`` is what the target's linear layers were quantised to when it was loaded; formats that
    files or servers bring along are part of ``dtype``.
    """

    suites: Mapping[str, Mapping[str, str]]
    target: str
    target_revision: str
    weight_hash: str
    dtype: str
    device: str
    sampling: tuple[Mapping[str, float], ...]
    max_new_tokens: int
    stop: tuple[str, ...]
    concurrency: tuple[int, ...]
    arrival: str
    template_hash: str
    thinking: str
    prefix_cache: str
    history: str
    system_policy: str
    quant: str = UNQUANTISED

    def digest(self) -> str:
        """SHA-256 over all fields, ``quant`` only where something was quantised.

        So runs from before that field keep their digest.
        """
        fields = asdict(self)
        if self.quant == UNQUANTISED:
            del fields["quant"]
        return digest(fields)


@dataclass(frozen=True, slots=True)
class ArmFactors:
    """What distinguishes an arm; ``lossless`` is the rule's own declaration.

    ``quant`` is what its draft was quantised to; the target's is part of the identity.

    ``stateful`` says that its drafter carries state from one request to the next.

    ``server`` is how its server is started, as far as the experiment says: another interpreter,
    variables, words of the command line, fields sent with every request.
    """

    name: str
    drafter: str
    k: int
    rule: str
    engine: str
    tree: str = "chain"
    draft_law: str = ""
    lossless: str = UNKNOWN
    quant: str = UNQUANTISED
    stateful: bool = False
    drafter_options: Mapping[str, object] = field(default_factory=dict)
    rule_options: Mapping[str, object] = field(default_factory=dict)
    server: Mapping[str, object] = field(default_factory=dict)

    @property
    def rule_label(self) -> str:
        """The rule with the parameters that were given."""
        given = ", ".join(f"{name}={value}" for name, value in self.rule_options.items())
        return f"{self.rule}({given})" if given else self.rule


@dataclass(frozen=True, slots=True)
class Manifest:
    """One run, described before it begins.

    ``experiment`` is the resolved configuration, ``planned`` the number of records a complete run
    holds, ``memory`` the bytes each arm holds once loaded, ``calibration`` the seconds per token
    and first-request times seen in warm-up, the costs of steps (``core.step_costs``) and what
    memory allows (``core.limit``; older runs do not have these two), ``prompts`` statistics of the
    chosen prompts by suite. ``choice`` says how the arms' K came to be what they are, where a sweep
    chose them.
    """

    run: str
    title: str
    created: str
    identity: Identity
    arms: tuple[ArmFactors, ...]
    suites: tuple[SuiteUse, ...]
    experiment: Mapping[str, object]
    planned: int
    seed: int
    calibration: Mapping[str, object] = field(default_factory=dict)
    memory: Mapping[str, Mapping[str, int | None]] = field(default_factory=dict)
    engine: Mapping[str, object] = field(default_factory=dict)
    environment: Mapping[str, object] = field(default_factory=dict)
    prompts: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    command: tuple[str, ...] = ()
    choice: Mapping[str, object] = field(default_factory=dict)
    schema_version: int = SCHEMA_VERSION

    def arm(self, name: str) -> ArmFactors:
        """The factors of an arm."""
        return next(arm for arm in self.arms if arm.name == name)


def settings_digest(manifest: Manifest, record: RecordId, prompt_hash: str) -> str:
    """Changes with everything that can change the output of one record (cases H1).

    Two records with equal digests may stand for each other; the name of the arm is no part of it.
    """
    arm = asdict(manifest.arm(record.arm))
    del arm["name"]
    return digest(
        {
            "identity": asdict(manifest.identity),
            "arm": arm,
            "drafts": manifest.engine.get("drafts", UNKNOWN),
            "libraries": manifest.environment.get("libraries", UNKNOWN),
            "key": asdict(record.key),
            "concurrency": record.concurrency,
            "seed": manifest.seed,
            "prompt": prompt_hash,
        }
    )


def turn_failed(turn: int) -> str:
    """The reason of a turn that was skipped because an earlier turn gave no answer."""
    return f"skipped: turn {turn + 1} failed"


def settled(trace: Trace) -> bool:
    """Whether a resumed run keeps this record: failures and what they prevented are tried again."""
    if trace.finish is Finish.SKIPPED:
        return not trace.error.startswith("skipped: turn ")
    return trace.ok
