"""Errors of ranks, as short blocks that read the same on every run."""

from __future__ import annotations

import re

from course_utils.text.tags import folded, indent, merge, tag

BLOCK = "the block of an error:"  # stands before a text that needs no more work
OURS = ("CannotSend", "CollectiveError")  # their text says all
NOISE = [
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

    An error of a rank brings its block along, as `block` wrote it there.
    """
    _, found, text = str(getattr(error, "traceback", "")).partition(BLOCK)
    if found:
        return text.strip("\n")
    name = getattr(error, "ename", type(error).__name__)
    message = readable(getattr(error, "evalue", str(error)))
    if name in OURS:
        return message
    return written(name, [], message.splitlines())


def block(error: BaseException, places: list[str], clean: bool) -> str:
    """Write an error on the rank that raised it, for the notebook to show.

    places: of the user's lines on the way to it, outermost first.
    clean: whether to take addresses and the like out of its text; the words of the
        user, and of most libraries, are shown as they are.
    """
    kind, message = type(error), words_of(error)
    if kind.__name__ in OURS:
        return f"{BLOCK}\n{message}"
    if clean:
        message = readable(message)
    notes = getattr(error, "__notes__", None) or []
    rest = [line for text in (message, *map(str, notes)) for line in text.splitlines()]
    cause = error.__cause__
    if cause is not None:
        rest += [f"from {line}" for line in [named(cause)]]
    return f"{BLOCK}\n{written(kind.__name__, places, rest)}"


def named(error: BaseException) -> str:
    """Write an error in one line, as Python does."""
    first = words_of(error).partition("\n")[0]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def words_of(error: BaseException) -> str:
    """Return the text of an error, also where its class cannot write it."""
    if isinstance(error, SyntaxError) and error.msg:
        return error.msg
    try:
        return str(error)
    except Exception:
        return "(its text cannot be written)"


def written(name: str, places: list[str], rest: list[str]) -> str:
    """Put name, places and text of an error together."""
    first = f"{name} {places[0]}" if places else name
    return "\n".join(
        [first, *indent("\n".join([*places[1:], *rest]).rstrip())]
    ).rstrip()


def failures(errors: dict[int, BaseException]) -> str:
    """Return the errors of ranks as text, one block for ranks that failed alike."""
    blocks = merge({rank: error_text(error) for rank, error in errors.items()})
    return "\n".join(f"{tag(ranks)} {block}" for ranks, block in blocks)
