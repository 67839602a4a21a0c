"""What stands before a row of a request: one place for target rows and draft rows."""

from __future__ import annotations

from collections.abc import Sequence

from specbench.decoding.sampling import RowContext
from specbench.decoding.sequence import Sequence as DecodedSequence


def needs_context(rows: Sequence[DecodedSequence]) -> bool:
    """Whether any request's rows depend on the tokens before them: penalties, minimum length."""
    return any(
        row.request.sampling.penalised or row.request.limits.min_new_tokens > 0 for row in rows
    )


def context_of(row: DecodedSequence, path: Sequence[int] = ()) -> RowContext:
    """The context of the row behind the committed tokens and a drafted path.

    Below the minimum length the stop ids may not come.
    """
    request = row.request
    output = [*row.tokens[row.prompt_length :].tolist(), *path]
    early = len(output) < request.limits.min_new_tokens
    return RowContext(request.token_ids, output, request.stops.token_ids if early else ())
