"""The catalogue's entry: transformers' own ``generate`` with assisted decoding, in this process.

What the library does differs from the native engine in ways that the numbers show:

- It drafts before the prompt has been read: its first forward is prefill and verification in one,
  and brings 1 to K + 1 tokens. These are the first arrival and no step.
- A draft model gets temperature and truncation twice (its sampling settings and the target's
  processors), so above temperature 0 it draws from a sharper law than it was asked for. The law
  it reports is the one it draws from: fewer drafts are accepted, the output is the target's.
- Prompt lookup has no draft law: drafts are compared with the target's own draw, which for them is
  rejection sampling. It also drafts past the length cap, and never an end token.
- A draft of another tokenizer is asked for K of its own tokens, which may be more or fewer of the
  target's; all counts are in the target's.

Read in transformers 5.24: ``generation/utils.py`` (``_assisted_decoding``,
``_speculative_sampling``), ``generation/candidate_generator.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from specbench.core.arm import ArmSpec
from specbench.core.manifest import ArmFactors
from specbench.core.request import Sampling
from specbench.engines.protocol import Engine
from specbench.engines.transformers_assisted.arms import arm_factors, check_conditions


class AssistedFactory:
    """Builds the engine, and says what it can do before anything loads."""

    def __call__(self, target: Mapping[str, Any], arms: Sequence[ArmSpec]) -> Engine:
        """Load target and drafts.

        Args:
            target: the experiment's ``[target]`` table: model, revision, dtype, device, prepack,
                template, system_policy, spans, concurrency.
            arms: what will run.

        Raises:
            UsageError: an arm or a concurrency that this engine does not offer.
            PrerequisiteError: a package or model is missing.
        """
        from specbench.engines.transformers_assisted.assisted import AssistedEngine

        check_conditions((), [int(target.get("concurrency", 1))])
        return AssistedEngine(target, arms)

    def factors(self, arm: ArmSpec, temperatures: Sequence[float]) -> ArmFactors:
        """See ``arms.arm_factors``."""
        return arm_factors(arm, temperatures)

    def check(self, samplings: Sequence[Sampling], concurrency: Sequence[int]) -> None:
        """See ``arms.check_conditions``."""
        check_conditions(samplings, concurrency)


open_engine = AssistedFactory()
