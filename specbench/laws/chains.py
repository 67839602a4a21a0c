"""The law of what one round emits when a sampler judges chains, integrated exactly."""

from __future__ import annotations

from torch import Tensor

from specbench.laws.codes import encode
from specbench.laws.integrate import integrate
from specbench.laws.outputs import RoundLaw, gather
from specbench.laws.rounds import Paths, Sampler, paths, rounds
from specbench.laws.tables import LawTable


def chain_law(sampler: Sampler, table: LawTable, drafts: Paths | None = None) -> RoundLaw:
    """Law of one round over every chain of drafts and all uniform numbers.

    Args:
        sampler: what is judged.
        table: target and draft.
        drafts: chains and their chances, where not those of the table's draft.
    """
    drafts = paths(table) if drafts is None else drafts
    k = drafts.ids.shape[1]

    def judge(context: Tensor, points: Tensor) -> Tensor:
        given = rounds(
            table, drafts.start[context], drafts.ids[context], points[:, :k], points[:, k]
        )
        return encode(sampler(given), table.size)

    found = integrate(judge, len(drafts.mass), k + 1)
    mass = found.volume * drafts.mass[found.context]
    doubt = float((found.doubt * drafts.mass).sum())
    return gather(drafts.start[found.context], found.code, mass, table.size, k + 1, doubt)
