"""Everything about an experiment that can be checked before a model loads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import tomli_w

from specbench.catalog import SERVERS
from specbench.core.arm import ArmSpec
from specbench.core.manifest import ArmFactors, SuiteUse, digest
from specbench.core.request import Sampling
from specbench.core.suite import Prompt, Suite
from specbench.errors import UsageError
from specbench.experiment.arms import check_arms, resolved
from specbench.experiment.load import Loaded
from specbench.experiment.schema import Experiment
from specbench.experiment.server_arms import launcher_of
from specbench.experiment.workload import Workload
from specbench.measure.plan import Unit
from specbench.measure.requests import Conditions
from specbench.measure.stages import Stage, plan_stages
from specbench.models.kernel_library import FLASHINFER, require_library
from specbench.models.locate import UNTRAINED, locate
from specbench.suites.loader import load_suite, select

STARTS_APART = 2
"""Starts of each server that runs without the others: the least that shows their spread."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A checked experiment with its prompts."""

    experiment: Experiment
    passed: str
    arms: tuple[ArmSpec, ...]
    factors: tuple[ArmFactors, ...]
    suites: tuple[Suite, ...]
    selection: Mapping[str, tuple[Prompt, ...]]
    conditions: Conditions

    @property
    def arm_names(self) -> list[str]:
        """Names of all arms, plain first."""
        return [arm.name for arm in self.arms]

    @property
    def largest(self) -> int:
        """Prompts of the largest suite."""
        return max(len(prompts) for prompts in self.selection.values())

    @property
    def started(self) -> list[str]:
        """Names of the arms whose servers are started here."""
        return [arm.name for arm in self.arms if self.experiment.on_server and arm.started]

    @property
    def together(self) -> bool:
        """Whether all arms can decode at the same time, so that they interleave."""
        if not self.started:
            return True
        asked = self.experiment.server.together
        launcher = launcher_of(self.experiment.engine)
        assert launcher is not None
        return launcher.together if asked is None else asked

    @property
    def starts(self) -> int:
        """How often each server is started: two starts show what one more start changes."""
        if not self.started:
            return 1
        return self.experiment.server.starts or (1 if self.together else STARTS_APART)

    def stages(self, limit: int | None = None) -> list[Stage]:
        """The plan for the first ``limit`` prompts of each suite.

        Raises:
            UsageError: fewer prompts than starts.
        """
        chosen = {name: prompts[:limit] for name, prompts in self.selection.items()}
        try:
            return plan_stages(chosen, self.conditions, self.arm_names, self.starts, self.together)
        except ValueError as error:
            raise UsageError(str(error), "raise --limit, or lower server.starts") from error

    def units(self, limit: int | None = None) -> list[Unit]:
        """All units of the plan in the order they run."""
        return [unit for stage in self.stages(limit) for unit in stage.units]

    def limited(self, limit: int) -> Prepared:
        """The same experiment on at most ``limit`` prompts per suite."""
        workload = self.experiment.workload.model_copy(update={"limit": limit})
        return replace(
            self,
            experiment=self.experiment.model_copy(update={"workload": workload}),
            selection={name: prompts[:limit] for name, prompts in self.selection.items()},
        )

    @property
    def splits(self) -> Mapping[str, str]:
        """Suite -> the split that its prompts were chosen from."""
        workload = self.experiment.workload
        pairs = zip(workload.suites, self.suites, strict=True)
        return {suite.name: workload.split_of(named) for named, suite in pairs}

    def offered(self, suite: Suite) -> tuple[int, int]:
        """Prompts of a suite in the categories that were asked for: in its split, and in all."""
        asked = set(self.experiment.workload.categories) & suite.categories.keys()
        splits = [p.split for p in suite.prompts if not asked or p.category in asked]
        split = self.splits[suite.name]
        return sum(split in ("all", each) for each in splits), len(splits)

    def warmup_prompts(self) -> Mapping[str, tuple[Prompt, ...]]:
        """Prompts to warm up on: as many as are measured, but others, where a suite has any."""
        left = {}
        for suite in self.suites:
            chosen = self.selection[suite.name]
            measured = {prompt.id for prompt in chosen}
            rest = tuple(prompt for prompt in suite.prompts if prompt.id not in measured)
            left[suite.name] = rest[: len(chosen)] or chosen
        return left

    def suite_uses(self) -> tuple[SuiteUse, ...]:
        """The suites as the manifest names them."""
        splits = self.splits
        return tuple(
            SuiteUse(
                name=suite.name,
                version=suite.version,
                digest=suite.digest,
                split=splits[suite.name],
                items=len(prompts),
                turns=sum(len(prompt.turns) for prompt in prompts),
                items_digest=digest([prompt.id for prompt in prompts]),
            )
            for suite in self.suites
            for prompts in [self.selection[suite.name]]
        )

    def resolved_toml(self) -> str:
        """The resolved experiment as TOML."""
        return tomli_w.dumps(self.experiment.resolved())


def prepare(loaded: Loaded) -> Prepared:
    """Check names, suites, options and the place of the target.

    Raises:
        UsageError, PrerequisiteError: with the name, the value and what to do.
    """
    experiment = loaded.experiment
    arms = tuple(experiment.arms())
    factors = check_arms(
        arms, experiment.workload.temperatures, experiment.allow_lossy, experiment.target.device
    )
    _check_sampler(experiment)
    if not experiment.on_server and experiment.engine != "scripted":
        locate_models(experiment.target.model, experiment.target.revision, arms)
    workload = _without_plain(experiment.workload, arms)
    _check_arrival(experiment)
    _check_engine(experiment, conditions := _conditions(workload, experiment.target.context))
    suites = tuple(load_suite(name) for name in workload.suites)
    _different([suite.name for suite in suites], workload.suites)
    selection = {
        suite.name: _chosen(suite, workload, workload.split_of(named))
        for named, suite in zip(workload.suites, suites, strict=True)
    }
    if workload.history == "fixed":
        _require_recorded(selection)
    return Prepared(experiment, loaded.passed, arms, factors, suites, selection, conditions)


def _without_plain(workload: Workload, arms: Sequence[ArmSpec]) -> Workload:
    """Without a plain arm later turns cannot show its answers: each arm sees its own."""
    if workload.history != "plain" or any(arm.plain for arm in arms):
        return workload
    return workload.model_copy(update={"history": "own"})


def _check_sampler(experiment: Experiment) -> None:
    """PrerequisiteError where the kernels that apply sampling settings cannot run."""
    target = experiment.target
    if experiment.engine == "native" and target.sampler == FLASHINFER:
        require_library(
            FLASHINFER, target.device, "sampler = flashinfer", "leave target.sampler out"
        )


def _check_arrival(experiment: Experiment) -> None:
    workload = experiment.workload
    if workload.arrival == "closed":
        if workload.rate is not None:
            raise UsageError(
                "workload.rate is for open arrivals", 'add arrival = "poisson", or leave it out'
            )
        return
    if not experiment.on_server:
        raise UsageError(
            f"arrival = {workload.arrival!r}: engine {experiment.engine} takes the next request "
            "when one ends",
            f"use an engine that is a server: {', '.join(SERVERS)}",
        )
    if (workload.arrival == "poisson") != (workload.rate is not None):
        raise UsageError(
            f"arrival = {workload.arrival!r} with rate = {workload.rate}",
            'give rate (requests per second) with arrival = "poisson", and only there',
        )
    if min(workload.concurrency) < 2:
        raise UsageError(
            f"arrival = {workload.arrival!r} with concurrency {min(workload.concurrency)}",
            "give the most requests that may be in flight, above 1, as --concurrency 64",
        )


def _check_engine(experiment: Experiment, conditions: Conditions) -> None:
    """An engine may refuse a sampling setting or a concurrency before it loads anything."""
    if experiment.target.dtype == "as_stored" and experiment.engine != "llamacpp":
        raise UsageError(
            f'target.dtype = "as_stored": engine {experiment.engine} computes in a type of its own',
            'write dtype = "float32", "bfloat16" or "float16"',
        )
    check = getattr(resolved("engines", experiment.engine), "check", None)
    if check is not None:
        check(conditions.samplings, conditions.concurrency)


def locate_models(target: object, revision: object, arms: Sequence[ArmSpec]) -> None:
    """Find the target and every draft model and head of the arms, before any of them loads.

    Raises:
        UsageError, PrerequisiteError: as ``models.locate``.
    """
    locate(str(target), revision=revision if isinstance(revision, str) else None)
    for arm in arms:
        options = arm.drafter_options
        several, own = options.get("models"), options.get("revision")
        for model in [options.get("model"), *(several if isinstance(several, list) else ())]:
            if isinstance(model, str) and model != UNTRAINED:
                locate(model, revision=own if isinstance(own, str) else None)


def _chosen(suite: Suite, workload: Workload, split: str) -> tuple[Prompt, ...]:
    known = [name for name in workload.categories if name in suite.categories]
    if workload.categories and not known:
        raise UsageError(
            f"suite {suite.name} has none of the categories {workload.categories}",
            f"known: {', '.join(suite.categories)}",
        )
    return select(
        suite,
        split=split,
        limit=workload.limit,
        categories=known or None,
        seed=workload.seed,
    )


def _different(names: Sequence[str], given: Sequence[str]) -> None:
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise UsageError(
            f"two suites are called {', '.join(sorted(twice))}: {', '.join(given)}",
            "rename one of them",
        )


def _require_recorded(selection: Mapping[str, Sequence[Prompt]]) -> None:
    for suite, prompts in selection.items():
        for prompt in prompts:
            if len(prompt.recorded) < len(prompt.turns) - 1:
                raise UsageError(
                    f"history = 'fixed': prompt {prompt.id} of suite {suite} has no recorded "
                    f"answer to turn {len(prompt.recorded) + 1}",
                    "record answers in the suite, or use history = 'plain'",
                )


def _conditions(workload: Workload, context: int | None) -> Conditions:
    samplings = tuple(
        Sampling(
            temperature=temperature,
            top_k=workload.top_k,
            top_p=workload.top_p,
            min_p=workload.min_p,
            repetition_penalty=workload.repetition_penalty,
            frequency_penalty=workload.frequency_penalty,
            presence_penalty=workload.presence_penalty,
        )
        for temperature in workload.temperatures
    )
    return Conditions(
        samplings=samplings,
        max_new_tokens=workload.max_new_tokens,
        history=workload.history,
        repeats=workload.repeats,
        concurrency=tuple(workload.concurrency),
        seed=workload.seed,
        warmup=workload.warmup,
        stop=tuple(workload.stop),
        context=context,
        open_arrivals=workload.arrival != "closed",
    )
