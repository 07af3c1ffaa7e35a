"""Small messages between ranks of one host, without sockets.

Each rank has a mailbox, which the others map: a count of the messages it has written,
and two places for a message, used in turn. It writes the message, then the count. The
last rank to do so wakes the others, which sleep until then. Before that they look again
and again for a moment, a longer one where each has a core: being woken takes longer.

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
import threading
import time
from collections.abc import Sequence

import torch
from torch import distributed as dist

from course_utils.same_host import futex

ROOM = 8192  # bytes of a message
SPIN = 5e-6  # seconds in which it looks again and again before it sleeps
LONG_SPIN = 50e-6  # the same, where there is a core for each rank of the world
DOZE = 20e-3  # seconds that it sleeps before it does so in gloo
WORD, LINE = 8, 64  # bytes, of a count and of a cache line
SLEEPS, HEARD = 0, 1  # notes for another rank: until which message, how often woken
NOTHING = torch.zeros(1, dtype=torch.uint8)

_lock = threading.Lock()
_doze = futex.span(DOZE)


def fence() -> None:
    """Have all that was written before be seen before what is read after."""
    with _lock:  # which takes an atomic instruction
        pass


class Mailbox:
    """The mailboxes of ranks on one host, as one of them sees it.

    ranks: by place, which rank of the group; me: the place of this one; others: those
    of the others; made: how many messages it has written; spin: see `SPIN`; tag: of
    what wakes, which no other mailbox of the group may have: one that wakes late would
    wake the wrong one.
    """

    def __init__(
        self, maps: Sequence[memoryview], me: int, ranks: list[int], tag: int
    ) -> None:
        self.me, self.made, self.ranks, self.tag = me, 0, ranks, tag
        size, begin, step = len(maps), head(len(maps)), LINE // WORD
        cores = len(os.sched_getaffinity(0))
        self.spin = LONG_SPIN if dist.get_world_size() <= cores else SPIN
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
        half, size = self._meet(mine, group), len(mine)
        for place in self.others:
            into[place][:] = self.halves[place][half][:size]
        self.whole = True

    def unlike(self, mine: bytes, group: dist.ProcessGroup) -> list[bytes]:
        """Give every other rank a message; return those of all ranks, of the same
        length, by place, or none if they are alike."""
        half, size = self._meet(mine, group), len(mine)
        found = [bytes(one[half][:size]) for one in self.halves]
        self.whole = True
        return [] if found.count(mine) == len(found) else found

    def _meet(
        self, mine: memoryview | bytearray | bytes, group: dist.ProcessGroup
    ) -> int:
        """Write a message, and wait for those of all; return in which half they lie.

        They lie there until the next call, before which `whole` is to be set.
        """
        if not self.whole:  # a call before was interrupted, and others may still read
            self._until(self.made, group)
        self.whole = False
        self.made = made = self.made + 1
        half = made & 1
        self.halves[self.me][half][: len(mine)] = mine
        self.counts[self.me][0] = made
        fence()
        for place in self.others:
            if self.noted[place][SLEEPS] == made:
                self._ring(place, group)
        self._until(made, group)
        return half

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
            if now() > begin + self.spin:
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
                ear, rank = self.ears[place], self.ranks[place]
                self.bells[place] = group.recv([ear], rank, self.tag)
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
        rung.append(group.send([NOTHING], self.ranks[place], self.tag))


def head(size: int) -> int:
    """Return the bytes before the messages, in a group of so many ranks."""
    return LINE * (1 + size)
