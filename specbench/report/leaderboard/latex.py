"""The leaderboard as LaTeX tables."""

from __future__ import annotations

from collections.abc import Sequence

from specbench.report.cells import Grid
from specbench.report.leaderboard.boards import Board, board_grid

LATEX = str.maketrans(
    {
        "&": r"\&",
        "%": r"\%",
        "$": r"\$",
        "#": r"\#",
        "_": r"\_",
        "{": r"\{",
        "}": r"\}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "\\": r"\textbackslash{}",
    }
)
COLUMNS = ("rank", "arm", "speed-up [95 %]", "accept length", "K", "draft", "rule", "prompts")
"""What a page of paper has room for."""


def leaderboard_latex(made: Sequence[Board]) -> str:
    """One ``tabular`` per board; what is not ranked is left to the other forms."""
    lines: list[str] = []
    for board in made:
        for ranked in (board.lossless, board.lossy):
            if ranked:
                lines += _tabular(board.title, board_grid(ranked))
    return "\n".join(lines)


def _tabular(title: str, table: Grid) -> list[str]:
    kept = [table.header.index(name) for name in COLUMNS]

    def line(cells: Sequence[str]) -> str:
        return " & ".join(cells[place].translate(LATEX) for place in kept) + r" \\"

    return [
        f"% {title}",
        rf"\begin{{tabular}}{{{'l' * len(kept)}}}",
        r"\hline",
        line(table.header),
        r"\hline",
        *map(line, table.rows),
        r"\hline",
        r"\end{tabular}",
        "",
    ]
