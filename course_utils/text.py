"""How ranks and their messages are written: tags, ranges, readable errors."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable

NOISE = [
    (re.compile(r" \((\d+\.py|<\w+>), line \d+\)$"), ""),  # file name of a cell
    (re.compile(r"\x1b\[[0-9;]*m"), ""),  # colours
    (re.compile(r"Exception raised from .*", re.DOTALL), ""),  # C++ frames
    (re.compile(r"\[/[^\]]*/([\w.]+\.cc):\d+\]\s*"), ""),  # C++ source lines
    (re.compile(r"\s*\b(remote|local)=\[[0-9a-fA-F.:]+\]:\d+"), ""),  # addresses
    (re.compile(r"\s*\[[0-9a-fA-F]*[.:][0-9a-fA-F.:]+\]:\d+"), ""),
    (re.compile(r"\b\d{1,3}(\.\d{1,3}){3}:\d+\b"), "its peer"),
    (re.compile(r"( object)? at 0x[0-9a-fA-F]+"), ""),  # identity of an object
    (re.compile(r"\[enforce fail at [^\]]*\]\s*"), ""),  # C++ source lines
    (re.compile(r" This is typically caused by a remote worker .*"), ""),
]
WIDTH = 79  # characters in a line that is shown
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


def readable(message: str) -> str:
    """Take colours, C++ frames, addresses and ports out of an error message."""
    for noise, instead in NOISE:
        message = noise.sub(instead, message)
    return message.strip()


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


class RankError(RuntimeError):
    """A cell or function failed on one or more ranks; the text says where."""

    def _render_traceback_(self) -> list[str]:
        return [part for line in str(self).splitlines() for part in folded(line)]


class NoSuchVariable(RankError, NameError):
    """A variable that ranks do not have."""


def error_text(error: BaseException) -> str:
    """Return one error as a short block: name, place, message.

    The guard's errors, the same on all ranks, hold the places themselves.
    """
    name = getattr(error, "ename", type(error).__name__)
    message = readable(getattr(error, "evalue", str(error)))
    if name == "CollectiveError":
        return message
    told = (getattr(error, "traceback", "") or "").splitlines()
    places = [line for line in told if line.startswith(("at line ", "in "))]
    first = f"{name} {places[0]}" if places else name
    more = places[1:] + message.splitlines()
    return "\n".join([first, *indent("\n".join(more))]) if more else first


def failures(errors: dict[int, BaseException]) -> str:
    """Return the errors of ranks as text, one block for ranks that failed alike."""
    blocks = merge({rank: error_text(error) for rank, error in errors.items()})
    return "\n".join(f"{tag(ranks)} {block}" for ranks, block in blocks)


def aligned(rows: Iterable[Iterable[object]]) -> str:
    """Write rows under one another, in columns."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip()
        for row in cells
    )
