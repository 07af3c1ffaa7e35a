"""Ranks of one host hand over what is larger in shared memory, without sockets.

Each rank has a memory of its own, per group, which the others map. It copies what it
brings there before it tells its row, so that whoever has the row may read: one copy
out, one copy in. The memory has two halves, used in turn. Before a rank writes a half
again it has had a later row of every rank, and each sends that after it has read.

The memory is anonymous, see `same_host`. It holds twice the largest piece that was
brought, rounded up to a power of two, and at most 2 * `LARGEST`; what is larger goes
through sockets. So does everything in a group one of whose ranks cannot have or reach
such memory: all ranks see that in the rows. For ranks on several hosts see `hosts`.

`CONCAT_SHARED_MEMORY=0` in the environment of a rank turns it off; with `debug` each
rank says once, on standard error, why it is not used.
"""

from __future__ import annotations

import mmap
import os
import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import torch
from torch import distributed as dist

from course_utils.same_host import Memory, reached, say, this_host, wanted

LARGEST = 2**25  # bytes of a piece
SMALLEST = 2**16  # bytes of half a memory


class Berth(NamedTuple):
    """Where a rank's bytes lie, in whole numbers that travel with its row.

    host: says which; pid, fd: by which the memory is reached; serial: which memory it
    is, 0 where it cannot be had; start, size: in bytes.
    """

    host: int = 0
    pid: int = 0
    fd: int = 0
    serial: int = 0
    start: int = 0
    size: int = 0


NUMBERS = len(Berth._fields)
UNUSED = Berth()
NOT_TO_BE_HAD = Berth(host=1)


class Dock:
    """The shared memory of one group, as this rank sees it.

    known: the serials of what every rank has mapped, by rank, and so the same on all
    ranks; works: whether this rank may use it and can; is_over: whether all ranks know
    that it is not used; ready: what stands ready as long as the memories stay the same.
    """

    def __init__(self) -> None:
        self.own: Memory | None = None
        self.own_flat: torch.Tensor | None = None  # what it holds
        self.turn = 0
        self.known: dict[int, int] = {}
        self.flats: dict[int, torch.Tensor] = {}
        self.works = wanted()
        self.is_over = False
        self.ready: dict[Hashable, Any] = {}

    def load(self, parts: Sequence[torch.Tensor], size: int) -> Berth:
        """Copy flat bytes, `size` in all, to where the others can read them."""
        berth = self.reserve(size)
        if berth is not NOT_TO_BE_HAD:
            torch.cat(parts, out=self.at(berth))
        return berth

    def at(self, berth: Berth) -> torch.Tensor:
        """Return the bytes of a berth of this rank."""
        return self.own_flat[berth.start : berth.start + berth.size]

    def reserve(self, size: int) -> Berth:
        """Return where the others can read so many bytes, once they are there."""
        if not self.works:
            return NOT_TO_BE_HAD
        try:
            own = self._at_least(size)
            host = this_host()
        except Exception as error:  # whatever it is, sockets do
            self.works = False
            say(f"this rank cannot have it: {error}")
            return NOT_TO_BE_HAD
        return Berth(host, os.getpid(), own.fd, own.serial, self.next_start(), size)

    @property
    def half(self) -> int:
        """The bytes that this rank has for a piece."""
        return 0 if self.own_flat is None else self.own_flat.numel() // 2

    def next_start(self) -> int:
        """Return where the next piece of this rank begins, from now on another half."""
        self.turn = self.half - self.turn
        return self.turn

    def _at_least(self, size: int) -> Memory:
        if self.own is None or self.half < size:
            self.turn = 0
            half = max(SMALLEST, 1 << (size - 1).bit_length())
            self.own = Memory("concat", 2 * half)
            self.own_flat = flat(self.own.bytes)
        return self.own

    def unload(
        self, berths: dict[int, Berth], agreed: Callable[[bool], bool]
    ) -> dict[int, torch.Tensor]:
        """Return the bytes at each berth, or nothing if some rank cannot read them.

        agreed: tells all ranks whether this one could map what is new to it; returns
        whether all could. Every rank passes the same berths.
        """
        if NOT_TO_BE_HAD in berths.values():
            return self._end("a rank does without it")
        if len({berth.host for berth in berths.values()}) > 1:
            return self._end("the ranks are on several hosts")
        new = {r: b for r, b in berths.items() if self.known.get(r) != b.serial}
        if new and not agreed(self._map(new)):
            return self._end("a rank cannot reach the memory of another")
        if new:
            self.ready.clear()
            self.known.update({rank: berth.serial for rank, berth in new.items()})
        return {r: self.flats[r][b.start :][: b.size] for r, b in berths.items()}

    def _map(self, berths: dict[int, Berth]) -> bool:
        if not self.works:
            return False
        try:
            if {berth.host for berth in berths.values()} != {this_host()}:
                return False  # what has these numbers here is another memory
            self.flats.update({r: flat(reached(*b[1:4])) for r, b in berths.items()})
        except Exception:  # or the others would wait for this rank
            self.works = False
        return self.works

    def _end(self, why: str) -> dict[int, torch.Tensor]:
        """Use sockets from now on, as all ranks do."""
        self.own = self.own_flat = None
        self.is_over = True
        for kept in (self.known, self.flats, self.ready):
            kept.clear()
        say(why)
        return {}


_docks: weakref.WeakKeyDictionary[dist.ProcessGroup, Dock] = weakref.WeakKeyDictionary()


def dock_of(group: dist.ProcessGroup) -> Dock:
    """Return the dock of a group, which goes when the group does."""
    dock = _docks.get(group)
    if dock is None:
        dock = _docks[group] = Dock()
    return dock


def flat(memory: mmap.mmap) -> torch.Tensor:
    """Return memory as flat bytes, which keep it."""
    return torch.frombuffer(memory, dtype=torch.uint8)
