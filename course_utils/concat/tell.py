"""Nobody is left waiting: what one rank cannot do becomes the error of all.

Before a rank may depend on another one, each tells a row of whole numbers, and
whether there is a problem of its own, of whatever kind: a value that is no tensor, an
exception nobody thought of, memory that is not to be had. If there is one, all ranks
exchange the texts and raise the same error; so no data moves, and the group stays
usable. If there is none, nothing more is sent.
"""

from __future__ import annotations

import functools
import mmap
import re
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import torch

from course_utils.concat.transfer import Wire, c10d, spread, swap
from course_utils.text import merge, show_bytes, these_ranks

try:
    import resource
except ImportError:  # not on Windows
    resource = None

Made = TypeVar("Made")
NEGLIGIBLE = 2**23  # bytes that a rank gets at any time: to ask would take longer
SURE = 2**24  # bytes that a rank gets for certain if twice as many were to be had
NO_MEMORY = "can't allocate memory"  # says torch of the memory of a CPU
LONGEST = 400  # characters of a problem
LINES = 6  # in an error


class ConcatError(ValueError):
    """The pieces of the ranks cannot be joined; every rank raises the same text."""


class Refused(Exception):
    """What this rank alone was given cannot be joined: says why, and a way on.

    The text goes on after the rank's name: "passed a dict: ...".
    """


def problem_of(error: Exception) -> str:
    """Say, as in `Refused`, what an exception means that one rank raised."""
    if isinstance(error, Refused):
        return str(error)
    text = text_of(error)
    if isinstance(error, MemoryError | torch.OutOfMemoryError) or NO_MEMORY in text:
        size = re.search(r"tried to allocate (\d+) bytes", text)
        amount = f", {show_bytes(int(size[1]))}" if size else ""
        return (
            f"cannot get the memory for this call{amount}: join smaller pieces, one "
            "after the other, or take a smaller dtype"
        )
    lines = [line for line in text.splitlines() if line.strip()]
    return f"cannot take part: {type(error).__name__}: {' '.join(lines[:2])}"


def text_of(error: Exception) -> str:
    """Return the text of an exception, "" of one that cannot say it."""
    try:
        return str(error)
    except Exception:
        return ""


def tell(
    operation: str, row: list[int], problem: str, wire: Wire
) -> dict[int, list[int]]:
    """Exchange rows of whole numbers, of one length; return them by global rank.

    problem: why this rank cannot go on, "" if it can.
    Raises ConcatError, the same on every rank of the group, if any has a problem.
    """
    text = f"{operation}: \0 {problem[:LONGEST]}" if problem else ""
    memory = bytearray(text.encode(errors="replace"))
    rows = exchanged([len(memory), *row], wire)
    if any(row[0] for row in rows.values()):
        sizes = {rank: row[0] for rank, row in rows.items()}
        raise ConcatError(said(exchanged_texts(memory, sizes, wire)))
    return {rank: row[1:] for rank, row in rows.items()}


def exchanged(row: list[int], wire: Wire) -> dict[int, list[int]]:
    """Return the rows of all ranks."""
    ranks, mine = wire.ranks, torch.frombuffer(array("q", row), dtype=torch.uint8)
    if wire.is_nccl:
        rows = torch.empty(len(ranks), len(mine), dtype=torch.uint8, device="cuda")
        c10d.all_gather_single(rows.view(-1), mine.cuda(), group=wire.group)
        told = rows.view(torch.int64).tolist()
    else:  # half the time of gloo's all_gather, which passes it on from rank to rank
        memory = bytearray(len(ranks) * len(mine))
        rows = torch.frombuffer(memory, dtype=torch.uint8).view(len(ranks), -1)
        into = dict(zip(ranks, rows, strict=True))
        swap(dict.fromkeys(ranks, mine), into, wire)
        told = memoryview(memory).cast("q", (len(ranks), len(row))).tolist()
    return dict(zip(ranks, told, strict=True))


def exchanged_texts(
    memory: bytearray, sizes: dict[int, int], wire: Wire
) -> dict[int, str]:
    """Return the problems of all ranks; those that have none say ""."""
    mine = torch.tensor(list(memory), dtype=torch.uint8, device=wire.device)
    flat = mine.new_empty(sum(sizes.values()))
    into = dict(zip(sizes, flat.split(list(sizes.values())), strict=True))
    spread(mine, into, wire)
    return {r: bytes(t.tolist()).decode(errors="replace") for r, t in into.items()}


def said(problems: dict[int, str]) -> str:
    """Write the problems of all ranks as one text, in as few lines as it takes."""
    lines = [
        text.replace("\0", these_ranks(ranks), 1) for ranks, text in merge(problems)
    ]
    if len(lines) > LINES:
        more = len(lines) - LINES + 1
        lines[LINES - 1 :] = [f"and {more} more ranks have problems of other kinds"]
    return "\n".join(lines)


def prepare(make: Callable[[], Made], operation: str, wire: Wire, ask: bool) -> Made:
    """Return what `make` makes on this rank, as soon as all have made theirs.

    ask: False if all ranks know that no one can fail; then nothing is told.
    Raises ConcatError on every rank if one of them cannot.
    """
    if not ask:
        return make()
    made, problem = None, ""
    try:
        made = make()
    except Exception as error:
        problem = problem_of(error)
    tell(operation, [], problem, wire)
    return made


def has_room(device: torch.device) -> bool:
    """Tell whether `SURE` bytes can be had for certain, without using any."""
    if device.type == "cpu" and not memory_is_limited():
        return True
    try:
        if device.type == "cpu":
            mmap.mmap(-1, 2 * SURE).close()
        else:
            torch.empty(2 * SURE, dtype=torch.uint8, device=device)
    except (OSError, RuntimeError, MemoryError):
        return False
    return True


def memory_is_limited() -> bool:
    """Tell whether the system refuses memory before it is used up."""
    if resource is None or commits_strictly():
        return True
    limits = (resource.RLIMIT_AS, resource.RLIMIT_DATA)
    return any(resource.getrlimit(n)[0] != resource.RLIM_INFINITY for n in limits)


@functools.cache
def commits_strictly() -> bool:
    """Tell whether Linux promises no more memory than there is."""
    try:
        return Path("/proc/sys/vm/overcommit_memory").read_text().strip() == "2"
    except OSError:
        return False
