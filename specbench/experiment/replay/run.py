"""One call of ``specbench replay``: check, load target and drafts, score them on a record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from specbench.core.manifest import UNKNOWN, Manifest
from specbench.core.request import GREEDY_BELOW, RequestKey
from specbench.engines.drafts.replay import DraftReplay
from specbench.errors import NotComparable, PrerequisiteError, UsageError
from specbench.experiment.load import SERVED
from specbench.experiment.other_targets import other_targets
from specbench.experiment.prepare import locate_models
from specbench.experiment.rebuild import run_prompts
from specbench.experiment.replay.drafts import Drafts, scorable
from specbench.experiment.replay.records import Recordings, chosen, recordings
from specbench.experiment.schema import check
from specbench.experiment.settings import engine_settings
from specbench.metrics.degenerate import ITEM_LIMIT, repeated_share
from specbench.metrics.replayed import ReplayedRequest
from specbench.results.read import Recorded

AS_STORED = "as_stored"


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be replayed.

    Attributes:
        drafts: see ``replay.drafts.named_drafts``.
        ks: longest drafts, ascending.
        arm: whose records.
        temperatures, limit: see ``replay.records.chosen``.
        batch: requests at a time.
        target: keys of the run's [target] table that are replaced.
        assume_same: take weights that differ or are not known for the run's.
    """

    drafts: Drafts
    ks: tuple[int, ...]
    arm: str
    temperatures: tuple[float, ...] = ()
    limit: int | None = None
    batch: int = 16
    target: Mapping[str, object] | None = None
    assume_same: bool = False


@dataclass(frozen=True, slots=True)
class Replay:
    """What came out.

    Attributes:
        manifest: of the run.
        asked: what was replayed.
        target: facts of the loaded target and of everything that was loaded for drafts.
        requests: by suite and temperature.
        reasons: why records were left out -> how many.
        notes: what a reader of the table should know.
    """

    manifest: Manifest
    asked: Asked
    target: Mapping[str, object]
    requests: Mapping[tuple[str, float], Sequence[ReplayedRequest]]
    reasons: Mapping[str, int]
    notes: Sequence[str]


@dataclass(frozen=True, slots=True)
class Hooks:
    """What a caller hears while it goes on.

    Attributes:
        note: a line for the reader.
        advance: the share of all tokens that is done.
    """

    note: Callable[[str], None] = lambda text: None
    advance: Callable[[float], None] = lambda share: None


def replay_drafts(recorded: Recorded, asked: Asked, hooks: Hooks | None = None) -> Replay:
    """Score drafts on the records of a run.

    Raises:
        UsageError: a suite that changed, an arm, a temperature or a draft that cannot be replayed.
        NotComparable: a target with other weights than the run's, or not known to have the same.
        PrerequisiteError: something is missing, or no record can be replayed.
    """
    hooks = hooks or Hooks()
    records = chosen(recorded, asked.arm, asked.temperatures, asked.limit)
    if not records:
        raise PrerequisiteError(
            f"run {recorded.manifest.run} has no finished record of arm {asked.arm}",
            "name another arm with --arm",
        )
    temperatures = sorted({record.key.temperature for record in records})
    asked = replace(asked, drafts=scorable(asked.drafts, temperatures))
    prompts = run_prompts(recorded.manifest)
    settings = _target(recorded.manifest, asked)
    locate_models(settings["model"], settings["revision"], asked.drafts.specs)
    hooks.note(f"loading {settings['model']}")
    replay = DraftReplay.load_target(settings)
    unknown = _require_weights(recorded.manifest, replay.weight_hash, asked.assume_same)
    for spec in asked.drafts.specs:
        hooks.note(f"loading draft {spec.name}")
        replay.load(spec)
    made = recordings(recorded, records, replay, prompts)
    if not made.found:
        raise _nothing("can be replayed", made.reasons.values())
    results, failed = _scored(replay, made, asked, hooks)
    if not results:
        raise _nothing("was scored", [*made.reasons.values(), *failed])
    described = replay.describe()
    notes = [*unknown, *_notes(replay, made, results), *asked.drafts.notes.values()]
    notes += other_targets(described)
    if asked.drafts.left_out:
        notes.append(asked.drafts.left_out)
    return Replay(
        recorded.manifest,
        asked,
        described,
        _cells(results),
        Counter([*made.reasons.values(), *failed]),
        notes,
    )


def _nothing(what: str, reasons: Iterable[str]) -> PrerequisiteError:
    counted = Counter(reasons).most_common()
    lines = "\n  ".join(f"{count}: {reason}" for reason, count in counted)
    return PrerequisiteError(f"no record of this run {what}", lines)


def _target(manifest: Manifest, asked: Asked) -> dict[str, object]:
    """The run's [target] table with what was replaced."""
    experiment = check(manifest.experiment, f"experiment of run {manifest.run}")
    settings = {**engine_settings(experiment), **(asked.target or {})}
    if asked.target and "model" in asked.target:
        settings["revision"] = None  # the run's is a commit of the run's target
    if settings["model"] == SERVED:
        raise UsageError(
            f"run {manifest.run} took what its server served: there is no model to load",
            "name it with --target",
        )
    if settings["dtype"] == AS_STORED:
        settings["dtype"] = "float32"
    return settings


def _require_weights(manifest: Manifest, found: str, assume_same: bool) -> list[str]:
    """A note where weights are taken for the run's."""
    known = manifest.identity.weight_hash
    if known == found and known != UNKNOWN:
        return []
    differ = (
        f"the weights of run {manifest.run} are not known"
        if UNKNOWN in (known, found)
        else f"the target's weights ({found[:12]}) are not those of run {manifest.run} "
        f"({known[:12]})"
    )
    if not assume_same:
        raise NotComparable(
            f"{differ}: its tokens may be those of another model",
            "name the run's target with --target; where you know that it is the same, add "
            "--assume-same",
        )
    return [f"{differ}; taken as the same"]


def _scored(
    replay: DraftReplay, made: Recordings, asked: Asked, hooks: Hooks
) -> tuple[list[ReplayedRequest], list[str]]:
    """Temperature by temperature, so that greedy requests are not held up by sampled ones."""
    by_temperature: dict[float, list[int]] = {}
    listed = list(made.found.values())
    for number, one in enumerate(listed):
        by_temperature.setdefault(one.request.key.temperature, []).append(number)
    total = sum(len(one.output) for one in listed)
    results: dict[int, ReplayedRequest] = {}
    failed: list[str] = []
    passed = 0

    def moved(tokens: int) -> None:
        nonlocal passed
        passed += tokens
        hooks.advance(passed / total)

    for numbers in by_temperature.values():
        for flight in replay.run([listed[n] for n in numbers], asked.ks, asked.batch, moved):
            if flight.failed:
                failed.append(flight.failed)
            else:
                results[numbers[flight.number]] = flight.result()
    return [results[number] for number in sorted(results)], failed


def _cells(results: Sequence[ReplayedRequest]) -> dict[tuple[str, float], list[ReplayedRequest]]:
    cells: dict[tuple[str, float], list[ReplayedRequest]] = {}
    for result in results:
        cells.setdefault((result.key.suite, result.key.temperature), []).append(result)
    return cells


def _notes(replay: DraftReplay, made: Recordings, results: Sequence[ReplayedRequest]) -> list[str]:
    notes = []
    for temperature in sorted({result.key.temperature for result in results}):
        here = [result for result in results if result.key.temperature == temperature]
        foreign, total = sum(r.foreign for r in here), sum(r.tokens for r in here)
        if foreign:
            what = "are not its first choice" if temperature < GREEDY_BELOW else "are impossible"
            notes.append(
                f"T={temperature:g}: {foreign} of {total} recorded tokens {what} for the target "
                "here: no draft is accepted there while decoding"
            )
    replayed: set[RequestKey] = {result.key for result in results}
    loops = sum(
        repeated_share(one.output) > ITEM_LIMIT
        for one in made.found.values()
        if one.request.key in replayed
    )
    if loops:
        notes.append(f"{loops} of {len(results)} outputs loop, which flatters every draft")
    if made.retokenised:
        notes.append(f"{made.retokenised} outputs are known as text and were tokenised again")
    if replay.one_by_one:
        notes.append("a draft learns from earlier answers: requests followed each other")
    return notes
