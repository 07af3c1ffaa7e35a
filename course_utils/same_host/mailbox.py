"""Small messages between the ranks of one host, without sockets.

Each rank has a mailbox, which the others map: a count of the messages it has written,
and two places for a message, used in turn. It writes the message, then the count. The
last rank to do so wakes the others, which sleep until then.

A sleep that lasts longer than `DOZE` goes on in gloo: the rank notes so in its own
mailbox, where the writer finds it, and waits for a message of no content. So whatever
ends a wait in gloo ends this one: a rank that dies, a group that is aborted, the
time-out of the group.

What one core writes, another must see in that order: true of x86, so it is not used
elsewhere. The other way round, a core may look before its own writing is seen; between
the two stands a `fence`, or a call of the system.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence

import torch
from torch import distributed as dist

from course_utils.same_host import futex
from course_utils.same_host.memory import Memory, reached, say, this_host, wanted

ROOM = 8192  # bytes of a message
SPIN = 5e-6  # seconds in which it looks again and again before that
DOZE = 20e-3  # seconds that it sleeps before it does so in gloo
TAG = 0x6D61696C  # of the messages that wake
ORDERED = platform.machine() in ("x86_64", "AMD64") and sys.maxsize > 2**32
WORD, LINE = 8, 64  # bytes, of a count and of a cache line
SLEEPS, HEARD = 0, 1  # notes for another rank: until which message, how often woken
CPU = torch.device("cpu")
WHAT = "mailbox"
NOTHING = torch.zeros(1, dtype=torch.uint8)

_lock = threading.Lock()
_doze = futex.span(DOZE)


def fence() -> None:
    """Have all that was written before be seen before what is read after."""
    with _lock:  # which takes an atomic instruction
        pass


class Mailbox:
    """The mailboxes of a group of ranks on one host, as one of them sees it.

    me: the place of this rank in the group; others: those of the others; made: how
    many messages it has written.
    """

    def __init__(self, maps: Sequence[memoryview], me: int) -> None:
        self.me, self.made = me, 0
        size, begin, step = len(maps), head(len(maps)), LINE // WORD
        self.others = [(me + i) % size for i in range(1, size)]
        words = [one[:begin].cast("q") for one in maps]
        self.counts = [one[:1] for one in words]
        self.met = words[0][1:2]
        self.met_at = ctypes.addressof(ctypes.c_char.from_buffer(maps[0])) + WORD
        self.notes = [words[me][step * (1 + i) :][:2] for i in range(size)]
        self.noted = [one[step * (1 + me) :][:2] for one in words]
        self.halves = [(one[begin:][:ROOM], one[begin + ROOM :][:ROOM]) for one in maps]
        self.whole = True
        self.ears = [torch.empty_like(NOTHING) for _ in maps]
        self.bells: dict[int, dist.Work] = {}
        self.rung: list[list[dist.Work]] = [[] for _ in maps]  # those still under way
        self.over = [0] * size  # those no longer

    def swap(
        self,
        mine: memoryview | bytearray | bytes,
        into: Sequence[memoryview],
        group: dist.ProcessGroup,
    ) -> None:
        """Give every other rank a message, and take theirs, of the same length.

        into: by place, where each comes, but for this rank's. At most `ROOM` bytes.
        """
        if not self.whole:  # a call before was interrupted, and others may still read
            self._until(self.made, group)
        self.whole = False
        self.made = made = self.made + 1
        half, size = made & 1, len(mine)
        self.halves[self.me][half][:size] = mine
        self.counts[self.me][0] = made
        fence()
        for place in self.others:
            if self.noted[place][SLEEPS] == made:
                self._ring(place, group)
        self._until(made, group)
        for place in self.others:
            into[place][:] = self.halves[place][half][:size]
        self.whole = True

    def _until(self, made: int, group: dist.ProcessGroup) -> None:
        """Wait until every rank has written so many messages; the last wakes all."""
        if min([count[0] for count in self.counts]) >= made:
            self.met[0] = made
            futex.wake(self.met_at)
        elif not self._soon(made):
            for place in self.others:
                self._sleep(place, made, group)

    def _soon(self, made: int) -> bool:
        """Wait for all, who come soon; tell whether they have."""
        met, now, begin = self.met, time.perf_counter, time.perf_counter()
        while met[0] < made:
            if now() > begin + SPIN:
                break
        while (seen := met[0]) < made:
            if now() > begin + DOZE:
                return False
            futex.wait(self.met_at, seen, _doze)
        return True

    def _sleep(self, place: int, made: int, group: dist.ProcessGroup) -> None:
        """Wait for a message in gloo.

        What wakes it stands ready before the note, and if it does not come, for the
        next time. So it may be woken for one that it saw by itself: it looks again.
        """
        notes = self.notes[place]
        while self.counts[place][0] < made:
            if place not in self.bells:
                self.bells[place] = group.recv([self.ears[place]], place, TAG)
            notes[SLEEPS] = made
            fence()
            if self.counts[place][0] < made:
                self.bells.pop(place).wait()
                notes[HEARD] += 1

    def _ring(self, place: int, group: dist.ProcessGroup) -> None:
        """Wake a rank that sleeps in gloo until it has this rank's message.

        Without waiting: it may be awake by now, and hear this when it sleeps again.
        """
        rung, heard = self.rung[place], self.noted[place][HEARD]
        del rung[: heard - self.over[place]]
        self.over[place] = heard
        rung.append(group.send([NOTHING], place, TAG))


def head(size: int) -> int:
    """Return the bytes before the messages, in a group of so many ranks."""
    return LINE * (1 + size)


Boxes = dict[str, Mailbox | None]
_boxes: weakref.WeakKeyDictionary[dist.ProcessGroup, Boxes] = (
    weakref.WeakKeyDictionary()
)


def mailbox_of(
    group: dist.ProcessGroup, user: str, told: Callable[[list[int]], list[list[int]]]
) -> Mailbox | None:
    """Return the mailbox of a group for one user, by name; None if it cannot have any.

    Every rank of the group calls it. told: exchanges a row of whole numbers by other
    ways, and returns those of all ranks; used in the first call of a group only.
    """
    boxes = _boxes.get(group)
    if boxes is None:
        boxes = _boxes[group] = {}
    if user not in boxes:
        boxes[user] = None  # what tells uses it, too
        if dist.get_backend(group) == "gloo" and not is_counted(group, CPU):
            boxes[user] = opened(group.rank(), group.size(), told)
    return boxes[user]


def opened(
    me: int, size: int, told: Callable[[list[int]], list[list[int]]]
) -> Mailbox | None:
    """Make the mailbox of this rank, and reach those of all; None if any cannot."""
    own, row = None, [0] * 4
    try:
        if wanted() and ORDERED and size > 1:
            own = Memory("mailbox", head(size) + 2 * ROOM)
            row = [this_host(), os.getpid(), own.fd, own.serial]
    except Exception as error:  # whatever it is, sockets do
        say(f"this rank cannot have it: {error}", WHAT)
    rows = told(row)
    if len({host for host, *_ in rows}) > 1:
        say("the ranks are on several hosts, or one does without it", WHAT)
        return None
    if not row[0]:
        return None
    maps = []
    try:
        maps = [memoryview(reached(*where)) for _, *where in rows]
    except Exception as error:  # or the others would wait for this rank
        say(f"this rank cannot reach it: {error}", WHAT)
    ready = all(row[0] for row in told([int(bool(maps))]))
    return Mailbox(maps, me) if ready else None  # `own` is closed, and stays mapped


def is_counted(group: dist.ProcessGroup, device: torch.device) -> bool:
    """Tell whether torch compares how many messages the ranks of a group have sent."""
    sender = group._get_backend(device)
    return type(sender).__name__ == "_ProcessGroupWrapper"


def swapped(group: dist.ProcessGroup) -> int:
    """Return how many messages this rank has swapped with all others of a group."""
    boxes = _boxes.get(group) or {}
    return sum(box.made for box in boxes.values() if box is not None)
