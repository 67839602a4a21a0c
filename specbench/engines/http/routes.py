"""Which route prompts take: as ids, as rendered text, or as messages."""

from __future__ import annotations

from specbench.catalog import nearest
from specbench.engines.http.protocol import Dialect
from specbench.errors import UsageError
from specbench.suites.templates import NO_TEMPLATE


def usable_routes(
    dialect: Dialect, asked: str, tokenizer: bool, template: str | None
) -> tuple[str, ...]:
    """The routes that can be used, best first.

    Ids need a tokenizer. Rendered text needs one too, unless no template is to be applied. The
    chat route applies the server's own template, so it is no choice where another is asked for.

    Args:
        asked: the experiment's; ``auto`` leaves the choice here.

    Raises:
        UsageError: the asked route is none of this dialect or cannot be used, or none can.
    """
    possible = []
    for route in dialect.routes:
        if route == "chat" and template is not None:
            continue
        if route == "ids" and not tokenizer:
            continue
        if route == "text" and not tokenizer and template != NO_TEMPLATE:
            continue
        possible.append(route)
    if asked == "auto":
        if possible:
            return tuple(possible)
        raise UsageError(
            f"engine {dialect.name}: with template {template!r} and without a tokenizer no route "
            "can be used",
            "give --tokenizer MODEL, or leave [target] template out",
        )
    if asked not in dialect.routes:
        raise UsageError(
            f"engine {dialect.name} has no route {asked!r}", nearest(asked, list(dialect.routes))
        )
    if asked not in possible:
        reason = "applies the server's template, and the experiment asks for another"
        raise UsageError(
            f"route {asked!r} {reason if asked == 'chat' else 'needs a tokenizer'}",
            "type: --set server.route=auto"
            if asked == "chat"
            else "give --tokenizer MODEL, or type: --set server.route=chat",
        )
    return (asked,)
