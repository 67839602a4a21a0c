"""The self-test of the fidelity tests: right samplers must pass, planted defects must be found.

Two settings. ``synthetic``: random rows, V = 32, no model, in seconds; the limits of every defect
are for it. ``model``: rows of a real model at positions of real texts, drafts from an early exit of
the same model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import scipy
import torch

from specbench.core.request import Sampling
from specbench.decoding.sampling import probabilities
from specbench.errors import PrerequisiteError
from specbench.laws.defects import BROKEN, RIGHT
from specbench.laws.positions import Positions, random_positions
from specbench.laws.power import LEVEL, MOST_ALARMS, Level, Power, level, power
from specbench.models.early_exit import early_exit
from specbench.models.load import load_model
from specbench.models.locate import locate
from specbench.suites.loader import load_suite

TEMPERATURE = 0.7
VOCABULARY, SPREAD, NOISE = 32, 2.0, 0.8
SYNTHETIC_POSITIONS, SYNTHETIC_RUNS = 2000, 200
MODEL_RUNS = 100
LIKELY = 1024
MODEL = "smollm2-135m-instruct"
EXIT_SHARE = 26 / 30
"""Share of the target's layers that drafts: early enough to differ, late enough to agree often."""
ENOUGH_RUNS = 200
CERTAIN = 0.999
"""More false alarms than this quantile of the allowed number are no chance."""
TEXTS, TOKENS_PER_TEXT, SKIPPED = 32, 16, 8


@dataclass(frozen=True, slots=True)
class SelfTest:
    """Outcome of one setting; ``ok`` where no right sampler fails and every defect is found."""

    setting: str
    levels: tuple[Level, ...]
    powers: tuple[Power, ...]

    @property
    def alarm_rate(self) -> float:
        """Share of false alarms over all right samplers."""
        return sum(one.alarms for one in self.levels) / sum(one.runs for one in self.levels)

    @property
    def allowed(self) -> float:
        """Largest share of false alarms that is right: 2 %, or what chance gives in few runs."""
        runs = sum(one.runs for one in self.levels)
        if runs >= ENOUGH_RUNS:
            return MOST_ALARMS
        return max(MOST_ALARMS, float(scipy.stats.binom.ppf(CERTAIN, runs, LEVEL)) / runs)

    @property
    def verdict(self) -> str:
        """Level and power in a sentence."""
        late = [one.sampler for one in self.powers if not one.good]
        text = f"false alarms in {self.alarm_rate:.1%} of all runs (at most {self.allowed:.0%})"
        power = f"not found in time: {', '.join(late)}" if late else "every defect found in time"
        return f"{'ok' if self.ok else 'OFF'}: {text}; {power}"

    @property
    def ok(self) -> bool:
        """Whether level and power are what they should be."""
        return self.alarm_rate <= self.allowed and all(one.good for one in self.powers)


def synthetic(seed: int, runs: int, note: Callable[[str], None]) -> SelfTest:
    """Random rows: V = 32, T = 0.7, logits of deviation 2, seen by the draft through 0.8 noise."""
    generator = np.random.default_rng(seed)
    positions = random_positions(
        SYNTHETIC_POSITIONS, VOCABULARY, Sampling(TEMPERATURE), SPREAD, NOISE, generator
    )
    setting = (
        f"random rows, V = {VOCABULARY}, T = {TEMPERATURE}, logits of deviation {SPREAD:g}, "
        f"draft noise {NOISE:g}, {SYNTHETIC_POSITIONS} positions"
    )
    return _run(setting, positions, runs, generator, note, real=False)


def with_model(name: str, seed: int, runs: int, note: Callable[[str], None]) -> SelfTest:
    """Rows of a real model; downloads nothing that ``run`` would not download."""
    generator = np.random.default_rng(seed)
    note(f"loading {name}")
    positions, layers = model_positions(name)
    setting = (
        f"{name}, T = {TEMPERATURE}, drafts from an exit behind {layers} layers, "
        f"{len(positions.logits)} positions of suite texts, cut to their {LIKELY} likeliest tokens"
    )
    return _run(setting, positions, runs, generator, note, real=True)


@torch.inference_mode()
def model_positions(name: str) -> tuple[Positions, int]:
    """Target and early-exit rows at positions of reference answers, and the draft's layers."""
    loaded = load_model(locate(name), dtype="float32")
    layers = round(EXIT_SHARE * loaded.config.num_hidden_layers)
    draft = early_exit(loaded.model, layers)
    target_rows, draft_rows = [], []
    kept = slice(SKIPPED, SKIPPED + TOKENS_PER_TEXT)
    for text in _texts():
        ids = torch.tensor([loaded.tokenizer(text)["input_ids"][: SKIPPED + TOKENS_PER_TEXT]])
        target_rows.append(loaded.model(input_ids=ids, use_cache=False).logits[0, kept].clone())
        draft_rows.append(draft(input_ids=ids, use_cache=False).logits[0, kept].clone())
    logits, blurred = torch.cat(target_rows), torch.cat(draft_rows)
    # Hundreds of repeats over the whole vocabulary would take an hour and show the same.
    likely = (logits.softmax(1) + blurred.softmax(1)).topk(LIKELY, dim=1).indices.sort(1).values
    logits, blurred = logits.gather(1, likely), blurred.gather(1, likely)
    sampling = Sampling(TEMPERATURE)
    laws = probabilities(blurred, [sampling] * len(blurred))
    return Positions(logits, laws, sampling, sampled=True), layers


def _texts() -> Iterator[str]:
    """Reference answers, from each suite in turn."""
    suites = [load_suite(name) for name in ("code", "translation", "chat")]
    answers = [
        [p.reference for p in suite.prompts if p.reference and len(p.reference) > 80]
        for suite in suites
    ]
    mixed = [text for row in zip(*(found for found in answers if found), strict=False)
             for text in row]  # fmt: skip
    if len(mixed) < TEXTS:
        raise PrerequisiteError(f"the suites hold {len(mixed)} reference answers, {TEXTS} needed")
    yield from mixed[:TEXTS]


def _run(
    setting: str,
    positions: Positions,
    runs: int,
    generator: np.random.Generator,
    note: Callable[[str], None],
    real: bool,
) -> SelfTest:
    levels, powers = [], []
    for sampler in RIGHT:
        note(f"{sampler.name}: {runs} runs")
        levels.append(level(sampler, positions, runs, generator))
    for sampler in BROKEN:
        note(f"{sampler.name}: {runs} runs")
        limit = sampler.model_limit if real else sampler.limit
        powers.append(power(sampler, positions, runs, generator, limit))
    return SelfTest(setting, tuple(levels), tuple(powers))
