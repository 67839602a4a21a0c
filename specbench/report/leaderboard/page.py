"""The leaderboard as Markdown and as a page of HTML."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

from specbench.report.cells import Grid
from specbench.report.imported import NOT_RANKED, WHY, board_of_imports
from specbench.report.leaderboard.boards import LOSSY, NOTES, Board, board_grid, unranked_lines
from specbench.report.markdown import table_lines
from specbench.results.foreign.imported import Imported
from specbench.results.leaderboard.entries import Unread


@dataclass(frozen=True, slots=True)
class Page:
    """What a leaderboard shows: ranked boards, imported figures, and folders it could not read."""

    boards: Sequence[Board]
    imported: Sequence[Imported]
    unread: Sequence[Unread]


def leaderboard_markdown(page: Page) -> str:
    """The whole page."""
    lines = ["# Leaderboard", "", *NOTES]
    for board in page.boards:
        lines += ["", f"## {board.title}"]
        for name, ranked in (("", board.lossless), (LOSSY, board.lossy)):
            if ranked:
                lines += [
                    "",
                    *([f"**{name}**", ""] if name else []),
                    *table_lines(board_grid(ranked)),
                ]
        if board.unranked:
            lines += ["", "Not ranked:", ""]
            lines += [f"- {line}" for line in unranked_lines(board)]
    if page.imported:
        table = board_of_imports(page.imported)
        lines += ["", f"## {NOT_RANKED}", "", WHY, "", *table_lines(table)]
    if page.unread:
        lines += ["", "## Not read", "", *(f"- {one.path.name}: {one.why}" for one in page.unread)]
    return "\n".join(lines) + "\n"


def leaderboard_html(page: Page) -> str:
    """A page without scripts or anything from elsewhere."""
    parts = ["<h1>Leaderboard</h1>", f"<p>{html.escape(' '.join(NOTES))}</p>"]
    for board in page.boards:
        parts.append(f"<h2>{html.escape(board.title)}</h2>")
        for name, ranked in (("", board.lossless), (LOSSY, board.lossy)):
            if ranked:
                parts += [f"<h3>{html.escape(name)}</h3>"] if name else []
                parts += _html_table(board_grid(ranked))
        if board.unranked:
            parts.append("<h3>Not ranked</h3><ul>")
            parts += [f"<li>{html.escape(line)}</li>" for line in unranked_lines(board)]
            parts.append("</ul>")
    if page.imported:
        parts += [f"<h2>{NOT_RANKED}</h2>", f"<p>{html.escape(WHY)}</p>"]
        parts += _html_table(board_of_imports(page.imported))
    for one in page.unread:
        parts.append(f"<p>Not read: {html.escape(f'{one.path.name}: {one.why}')}</p>")
    return _PAGE.format(body="\n".join(parts))


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Leaderboard</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 90rem; }}
body {{ padding: 0 1rem; }}
div {{ overflow-x: auto; }}
table {{ border-collapse: collapse; }}
th, td {{ text-align: left; padding: .3rem .7rem; border-bottom: 1px solid #8884; }}
td {{ font-variant-numeric: tabular-nums; }}
</style></head><body>
{body}
</body></html>
"""


def _html_table(table: Grid) -> list[str]:
    def line(cells: Sequence[str], kind: str) -> str:
        return "".join(f"<{kind}>{html.escape(cell)}</{kind}>" for cell in cells)

    return [
        "<div><table>",
        f"<thead><tr>{line(table.header, 'th')}</tr></thead><tbody>",
        *(f"<tr>{line(row, 'td')}</tr>" for row in table.rows),
        "</tbody></table></div>",
    ]
