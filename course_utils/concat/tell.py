"""Nobody is left waiting: what one rank cannot do becomes the error of all.

Before a rank may depend on another one, each tells a row of whole numbers, and
whether there is a problem of its own, of whatever kind: a value that is no tensor, an
exception nobody thought of, memory that is not to be had. If there is one, all ranks
exchange the texts and raise the same error; so no data moves, and the group stays
usable. If there is none, nothing more is sent.

What is small travels with the row, as in MPI's eager protocol: the row is padded to
one size on all ranks, since nobody knows yet who has how much. What is larger lies in
shared memory by then, where all ranks are on one host, see `shared`. One exchange
does it then, instead of two that wait for each other.
"""

from __future__ import annotations

import functools
import mmap
import re
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import torch

from course_utils.concat.shared import LARGEST, NUMBERS, UNUSED, Berth, dock_of
from course_utils.concat.transfer import SINGLE, Wire, c10d, spread, swap
from course_utils.same_host import ROOM, Mailbox, Opened, mailboxes_of
from course_utils.text import merge, show_bytes, these_ranks

try:
    import resource
except ImportError:  # not on Windows
    resource = None

Made = TypeVar("Made")
NEGLIGIBLE = 2**23  # bytes that a rank gets at any time: to ask would take longer
SURE = 2**24  # bytes that a rank gets for certain if twice as many were to be had
NO_MEMORY = "can't allocate memory"  # says torch of the memory of a CPU
EAGER = 4096  # bytes that travel with a row
FEW = 64  # ranks; where there are more, nothing travels with a row
ALIGN = 16  # bytes; so that every dtype may begin behind a row
WHERE = 8 * NUMBERS  # bytes of a berth
NOWHERE = bytes(WHERE)  # of a rank that has nothing in shared memory
KEPT = 64  # calls of which is known what follows from their rows
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


class Told(NamedTuple):
    """What all ranks told, in the order of the group.

    heads: the rows, as memory of whole numbers of 64 bits, which `rows_of` reads;
    berths: where the bytes of a rank lie, by rank, of those that are in shared memory;
    early: flat bytes of each rank that are here already, maybe more than it sent;
    none of a rank that sent more than there is room for.
    """

    heads: bytes
    berths: dict[int, Berth]
    early: list[torch.Tensor]


def slot_of(wire: Wire) -> int:
    """Return how many bytes travel with a row, the same on all ranks of a group."""
    return 0 if wire.is_nccl or len(wire.ranks) > FEW else EAGER


def tell(
    operation: str,
    row: list[int],
    problem: str,
    wire: Wire,
    cargo: Sequence[torch.Tensor] = (),
    slot: int = 0,
) -> Told:
    """Exchange rows of whole numbers, of one length.

    problem: why this rank cannot go on, "" if it can. cargo: flat bytes that travel
    with the row if there is room for them, or for the first; slot: bytes for them in
    each message, 0 if there is no cargo on any rank.
    Raises ConcatError, the same on every rank of the group, if any has a problem.
    """
    text = f"{operation}: \0 {problem[:LONGEST]}" if problem else ""
    memory = bytearray(text.encode(errors="replace"))
    told = exchanged([len(memory), *row], wire, cargo, slot)
    return heard(told, memory, wire)


def heard(told: Told, problem: bytearray, wire: Wire) -> Told:
    """Return what all told, with what lies in shared memory.

    problem: this rank's, as text. Raises ConcatError if any has one.
    """
    rows = rows_of(told.heads, wire.ranks)
    if any([row[0] for row in rows.values()]):
        sizes = {rank: row[0] for rank, row in rows.items()}
        raise ConcatError(said(exchanged_texts(problem, sizes, wire)))
    if not told.berths:
        return told
    found = dock_of(wire.group).unload(told.berths, lambda ok: all_agree(ok, wire))
    nothing = told.early[0][:0]
    early = [
        found.get(rank, nothing) if rank in told.berths else part
        for rank, part in zip(wire.ranks, told.early, strict=True)
    ]
    return told._replace(early=early)


def all_agree(mine: bool, wire: Wire) -> bool:
    """Tell whether all ranks say yes."""
    told = exchanged([int(mine)], wire, (), 0)
    return all(row[0] for row in rows_of(told.heads, wire.ranks).values())


@functools.lru_cache(KEPT)
def rows_of(heads: bytes, ranks: tuple[int, ...]) -> dict[int, tuple[int, ...]]:
    """Return the rows of all ranks, each behind the length of its problem's text."""
    numbers = memoryview(heads).cast("q")
    width = len(numbers) // len(ranks)
    return {r: tuple(numbers[i * width :][:width]) for i, r in enumerate(ranks)}


def exchanged(
    row: list[int], wire: Wire, cargo: Sequence[torch.Tensor], slot: int
) -> Told:
    """Send a row to all ranks, and something with it; return what all told."""
    width = 8 * len(row)
    if not slot:
        return Told(bytes(swapped(message(row, width), wire)), {}, [])
    frame = Frame(width, slot)
    parts, berth = shipped(cargo, wire, slot)
    mine = message([*row, *berth], frame.step)
    load(mine, frame.begin, parts)
    return read(swapped(mine, wire), frame, wire)


class Frame(NamedTuple):
    """How a message with cargo is laid out: row, berth, and a slot for the cargo."""

    width: int  # of the row, in bytes
    slot: int

    @property
    def begin(self) -> int:
        """Where the slot begins."""
        return -(-(self.width + WHERE) // ALIGN) * ALIGN

    @property
    def step(self) -> int:
        """The bytes of a message."""
        return self.begin + self.slot


def read(memory: bytearray, frame: Frame, wire: Wire) -> Told:
    """Read the messages of all ranks, which lie one behind the other."""
    width, begin, step = frame.width, frame.begin, frame.step
    starts = range(0, len(memory), step)
    heads = b"".join([memory[start : start + width] for start in starts])
    places = [memory[start + width : start + width + WHERE] for start in starts]
    flat = torch.frombuffer(memory, dtype=torch.uint8)
    early = [flat[start + begin : start + step] for start in starts]
    if places.count(NOWHERE) == len(places):
        return Told(heads, {}, early)
    told = zip(wire.ranks, places, strict=True)
    berths = {r: Berth(*array("q", at)) for r, at in told if at != NOWHERE}
    return Told(heads, berths, early)


def shipped(
    cargo: Sequence[torch.Tensor], wire: Wire, slot: int
) -> tuple[Sequence[torch.Tensor], Berth]:
    """Return what travels in the message, and where in shared memory the rest lies."""
    for count in range(len(cargo), 0, -1):
        size = sum([part.numel() for part in cargo[:count]])
        if size <= slot:
            return cargo[:count], UNUSED
        dock = dock_of(wire.group)
        if size <= LARGEST and not dock.is_over:
            return (), dock.load(cargo[:count], size)
    return (), UNUSED


def load(memory: bytearray, start: int, parts: Sequence[torch.Tensor]) -> None:
    """Copy flat bytes into a message, one behind the other."""
    flat = torch.frombuffer(memory, dtype=torch.uint8)
    for part in parts:
        flat[start : start + part.numel()] = part
        start += part.numel()


def swapped(mine: bytearray, wire: Wire) -> bytearray:
    """Return the messages of all ranks, which are of one length."""
    ranks, step = wire.ranks, len(mine)
    flat = torch.frombuffer(mine, dtype=torch.uint8)
    if wire.is_nccl:
        found = torch.empty(len(ranks) * step, dtype=torch.uint8, device="cuda")
        getattr(c10d, SINGLE)(found, flat.cuda(), group=wire.group)
        return bytearray(found.tolist())
    memory = bytearray(len(ranks) * step)
    if box := mailbox_for(wire, step):
        parts = [memoryview(memory)[i : i + step] for i in range(0, len(memory), step)]
        parts[box.me][:] = mine
        box.swap(mine, parts, wire.group)
        return memory
    found = torch.frombuffer(memory, dtype=torch.uint8)
    # half the time of gloo's all_gather, which passes it on from rank to rank
    parts = dict(zip(ranks, found.split(step), strict=True))
    swap(dict.fromkeys(ranks, flat), parts, wire)
    return memory


def mailbox_for(wire: Wire, size: int) -> Mailbox | None:
    """Return the mailbox of a group for messages of this size; None if it has none."""
    return mailboxes_for(wire).for_all if size <= ROOM else None


def mailboxes_for(wire: Wire) -> Opened:
    """Return what a group has of mailboxes."""

    def told(row: list[int]) -> list[tuple[int, ...]]:
        heads = bytes(swapped(message(row, 8 * len(row)), wire))
        return [*rows_of(heads, wire.ranks).values()]

    return mailboxes_of(wire.group, "concat", told)


def message(row: list[int], length: int) -> bytearray:
    """Return whole numbers as memory of so many bytes, with zeros behind them."""
    memory = bytearray(length)
    memory[: 8 * len(row)] = array("q", row).tobytes()
    return memory


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


def carried(
    make: Callable[[], Sequence[torch.Tensor]],
    operation: str,
    wire: Wire,
    sizes: dict[int, int],
) -> dict[int, torch.Tensor]:
    """Return the bytes that each rank sends to all, by rank, from shared memory.

    make: makes this rank's, as flat bytes, one behind the other; sizes: of what each
    rank sends, by rank, the same on every rank. Returns nothing where it goes by
    sockets.
    Raises ConcatError on every rank if one of them cannot make its own.
    """
    largest = max(sizes.values())
    if not is_shared(largest, wire):
        return {}
    cargo, problem = [], ""
    try:
        cargo = make()
    except Exception as error:
        problem = problem_of(error)
    told = tell(operation, [], problem, wire, cargo, slot_of(wire))
    found = zip(sizes.items(), told.early, strict=True)
    parts = {rank: part[:size] for (rank, size), part in found}
    complete = all([part.numel() == sizes[rank] for rank, part in parts.items()])
    return parts if complete else {}


def is_shared(size: int, wire: Wire) -> bool:
    """Tell whether so many bytes of a rank go through shared memory, as far as all
    ranks know."""
    if not slot_of(wire) or mailbox_for(wire, 0) is None:
        return False
    return size <= EAGER or size <= LARGEST and not dock_of(wire.group).is_over


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
