"""Laws of small settings, in the form in which the papers give them."""

import torch

from specbench.laws.chains import chain_law
from specbench.laws.rules import RuleSampler
from specbench.laws.tables import LawTable, argmax_rows, everywhere


def table(target, draft, k=1):
    """A table; ``target`` a row or rows, ``draft`` likewise or the token(s) an argmax draft takes.

    A single row holds after every token.
    """
    rows = target if isinstance(target, torch.Tensor) else everywhere(target)
    if isinstance(draft, int):
        draft = [draft] * len(rows)
    if isinstance(draft, list) and all(isinstance(entry, int) for entry in draft):
        return LawTable("test", rows, argmax_rows(draft), False, k)
    rows_of_draft = draft if isinstance(draft, torch.Tensor) else everywhere(draft)
    return LawTable("test", rows, rows_of_draft, True, k)


def law_of(rule, target, draft, k=1, temperature=1.0):
    """Law of one round of a rule, see ``table``."""
    return chain_law(RuleSampler(rule, temperature), table(target, draft, k))


def first_token(law, start=0):
    """Marginal of the first emitted token behind a start."""
    return law.reach(1)[start].tolist()


def kept(law, count, start=0):
    """Chance that exactly the first ``count`` drafts are kept."""
    return float(law.exact[count][start].sum())
