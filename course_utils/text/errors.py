"""Errors of ranks, as short blocks that read the same on every run."""

from __future__ import annotations

import re

from course_utils.text.tags import folded, indent, merge, tag

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


def readable(message: str) -> str:
    """Take colours, C++ frames, addresses and ports out of an error message."""
    for noise, instead in NOISE:
        message = noise.sub(instead, message)
    return message.strip()


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
