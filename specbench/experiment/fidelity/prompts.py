"""Prompts that a server rendered itself: do they have as many tokens as for the reference?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from specbench.core.manifest import Manifest, RecordId
from specbench.experiment.fidelity.line import FAILED, Line, word
from specbench.experiment.reference import PromptLength


def prompt_lines(manifest: Manifest, prompts: Mapping[RecordId, PromptLength]) -> list[Line]:
    """A line per arm, temperature and concurrency where any prompt differs.

    One prompt of another length is proof of another prompt: no chance is involved. A template that
    differs without changing a length is left to the tests of the tokens.
    """
    cells: dict[tuple[float, int, str], list[PromptLength]] = {}
    for record, length in prompts.items():
        cell = (record.key.temperature, record.concurrency, record.arm)
        cells.setdefault(cell, []).append(length)
    return [
        _line(manifest, cell, lengths)
        for cell, lengths in cells.items()
        if any(length.server != length.reference for length in lengths)
    ]


def _line(
    manifest: Manifest, cell: tuple[float, int, str], lengths: Sequence[PromptLength]
) -> Line:
    arm, wrong = manifest.arm(cell[2]), [x for x in lengths if x.server != x.reference]
    failed = word(arm.lossless, FAILED)
    return Line(
        *cell, arm.rule_label, arm.lossless, "prompt", len(lengths), float(len(wrong)), None, None,
        failed, failed, _told(wrong, len(lengths)),
    )  # fmt: skip


def _told(wrong: Sequence[PromptLength], total: int) -> str:
    first = wrong[0]
    gap = median(x.server - x.reference for x in wrong)
    return (
        f"{len(wrong)} of {total} prompts have another number of tokens on the server than for the "
        f"reference, {gap:+g} in the middle; the first {first.server} against {first.reference} "
        "(wrong chat template, or a second start token?)"
    )
