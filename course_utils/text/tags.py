"""How ranks and what they said are written: tags, ranges, blocks, tables."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable

WIDTH = 79  # characters in a line that is shown
ROWS = 4  # in the table of an error, at most
SENTENCE = re.compile(r"(\[ranks? [^]]*\] | {2})(?! )(?!.* {2})")  # no row of a table


def rank_list(ranks: Iterable[int]) -> str:
    """Write ranks with the ranges drawn together, as in "0–2, 5"."""
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    return ", ".join(f"{a}–{b}" if b > a else str(a) for a, b in runs)


def these_ranks(ranks: Iterable[int]) -> str:
    """Write "rank 1", or "ranks 0–2, 5"."""
    ranks = list(ranks)
    return f"rank{'s' if len(ranks) > 1 else ''} {rank_list(ranks)}"


def tag(ranks: Iterable[int]) -> str:
    """Return the mark in front of what ranks said, as in "[ranks 0–3]"."""
    return f"[{these_ranks(ranks)}]"


def indent(text: str) -> list[str]:
    """Return the lines of a text, set two spaces in."""
    return [f"  {line}".rstrip() for line in text.split("\n")]


def merge(said: dict[int, object]) -> list[tuple[list[int], object]]:
    """Group the ranks that said the same, in order of their first rank."""
    groups: list[tuple[list[int], object]] = []
    for rank, words in said.items():
        for ranks, same in groups:
            if words == same:
                ranks.append(rank)
                break
        else:
            if words:
                groups.append(([rank], words))
    return groups


def folded(line: str) -> list[str]:
    """Break a long sentence of a report between words; leave the rows of tables."""
    fits = len(line) <= WIDTH or not SENTENCE.match(line)
    return [line] if fits else paragraph(line, "    ").splitlines()


def paragraph(text: str, indented: str = "  ") -> str:
    """Break a long sentence between words; its further lines are indented."""
    return textwrap.fill(
        text,
        WIDTH,
        subsequent_indent=indented,
        break_long_words=False,
        break_on_hyphens=False,
    )


def aligned(rows: Iterable[Iterable[object]]) -> str:
    """Write rows under one another, in columns."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip()
        for row in cells
    )


def rank_table(
    headings: Iterable[str], cells: dict[int, tuple], most: int = ROWS
) -> str:
    """Write what each rank has under headings, a row a rank.

    Where that takes more than `most` rows, ranks that have the same share one, and
    what is still too much is counted.
    """
    rows = [(str(rank), *row) for rank, row in cells.items()]
    more = []
    if len(rows) > most:
        groups = merge(cells)
        if len(groups) > most:
            more = sorted(sum((ranks for ranks, _ in groups[most - 1 :]), []))
            del groups[most - 1 :]
        rows = [(rank_list(ranks), *row) for ranks, row in groups]
    text = aligned([("rank", *headings), *rows])
    return f"{text}\n… and {these_ranks(more)}" if more else text
