"""Between hosts every piece crosses once; on a host it is handed on in memory.

The ranks of a host share its cable. If each sent its piece to every rank elsewhere, a
piece would cross once for each rank that is there. Here one rank of each other host
takes it, in memory that its neighbours map, see `shared`; then these copy it from
there. The pieces from elsewhere are shared out among the ranks of a host, so that all
of them send and receive.

The memory of a rank holds its own piece and those it takes. Where that would be more
than `ROUND`, the pieces cross in several rounds. Ranks of a host that cannot share
memory hand on by sockets; what crosses stays the same. For what one rank sends to all
see `relay`.
"""

from __future__ import annotations

import weakref
from array import array
from collections import Counter

import torch
from torch import distributed as dist

from course_utils.concat import transfer
from course_utils.concat.shared import NOT_TO_BE_HAD, UNUSED, Berth, Dock
from course_utils.concat.tell import mailboxes_for
from course_utils.concat.transfer import Wire, swap
from course_utils.same_host import Mailbox

ROUND = 2**26  # bytes that a rank has in memory for others, at a time


def spread(mine: torch.Tensor, into: dict[int, torch.Tensor], wire: Wire) -> None:
    """Send flat bytes to all ranks and receive theirs, as `transfer.spread` does."""
    crowd = crowd_of(wire)
    if crowd is None:
        transfer.spread(mine, into, wire)
        return
    longest = max([target.numel() for target in into.values()])
    step = max(1, ROUND // crowd.most)
    for start in range(0, longest, step):
        part = {rank: t[start : start + step] for rank, t in into.items()}
        crowd.spread(mine[start : start + step], part, wire)


class Crowd:
    """The ranks of a group on several hosts, as one of them sees them.

    here: those on this rank's host; by_host: who holds the piece of each rank there,
    for every host; holders: the same on this one; held: which pieces each rank here
    holds for the others; away: the ranks elsewhere that take this one's; most: how many
    pieces a rank holds at most, on any host.
    """

    def __init__(self, hosts: list[list[int]], box: Mailbox, me: int) -> None:
        self.box, self.dock = box, Dock()
        self.here = next(host for host in hosts if me in host)
        ranks = sorted([rank for host in hosts for rank in host])
        self.by_host = [holders(host, ranks) for host in hosts]
        self.holders = self.by_host[hosts.index(self.here)]
        self.held = {r: held_by(r, self.holders) for r in self.here}
        self.away = [found[me] for found in self.by_host if found[me] != me]
        counts = [Counter(found.values()) for found in self.by_host]
        self.most = max([max(count.values()) for count in counts])
        self.dock.is_over = len(self.here) == 1

    def spread(
        self, mine: torch.Tensor, into: dict[int, torch.Tensor], wire: Wire
    ) -> None:
        """Do one round: of all pieces the part that is in memory at a time."""
        sizes = {rank: target.numel() for rank, target in into.items()}
        held = {r: sizes[r] for r in self.held[wire.me]}
        berth = NOT_TO_BE_HAD
        if not self.dock.is_over:
            berth = self.dock.reserve(sum(held.values()))
        parts = {r: into[r] for r in held}
        if berth is not NOT_TO_BE_HAD:
            parts = cut(self.dock.at(berth), held)
        parts[wire.me].copy_(mine)
        taken = {r: part for r, part in parts.items() if r != wire.me}
        swap(dict.fromkeys(self.away, mine), taken, wire)
        found = {} if self.dock.is_over else self._memory(berth, wire)
        for rank, flat in found.items():
            for r, part in cut(flat, {r: sizes[r] for r in self.held[rank]}).items():
                into[r].copy_(part)
        if not found:
            self._hand_on(parts, into, wire)

    def give(self, flat: torch.Tensor, root: int, wire: Wire) -> None:
        """Hand on flat bytes that the holder of the root's piece has here."""
        if len(self.here) == 1:
            return
        giver, found = self.holders[root], {}
        if not self.dock.is_over:
            berth = self.dock.load([flat], flat.numel()) if giver == wire.me else UNUSED
            found = self._memory(berth, wire)
        if giver == wire.me:
            others = [] if found else [r for r in self.here if r != wire.me]
            swap(dict.fromkeys(others, flat), {}, wire)
        elif found:
            flat.copy_(found[giver])
        else:
            swap({}, {giver: flat}, wire)

    def _memory(self, berth: Berth, wire: Wire) -> dict[int, torch.Tensor]:
        """Return what each neighbour holds, but for those with `UNUSED`; nothing if one
        of them cannot share it."""
        told = self._told([*berth], wire)
        berths = {r: Berth(*row) for r, row in told.items() if row != [*UNUSED]}
        return self.dock.unload(
            berths,
            lambda ok: all([ok for (ok,) in self._told([int(ok)], wire).values()]),
        )

    def _told(self, row: list[int], wire: Wire) -> dict[int, list[int]]:
        """Exchange whole numbers with the ranks of this host."""
        mine = array("q", row).tobytes()
        memory = {rank: bytearray(mine) for rank in self.here}
        self.box.swap(mine, [*map(memoryview, memory.values())], wire.group)
        return {rank: array("q", got).tolist() for rank, got in memory.items()}

    def _hand_on(
        self,
        parts: dict[int, torch.Tensor],
        into: dict[int, torch.Tensor],
        wire: Wire,
    ) -> None:
        """Give the neighbours by sockets what this rank holds for them."""
        for rank, holder in self.holders.items():
            if holder == wire.me:
                if into[rank] is not parts[rank]:
                    into[rank].copy_(parts[rank])
                others = [r for r in self.here if r != wire.me]
                swap(dict.fromkeys(others, into[rank]), {}, wire)
            else:
                swap({}, {holder: into[rank]}, wire)


def holders(host: list[int], ranks: list[int]) -> dict[int, int]:
    """Return who on a host holds the piece of each rank for the others there."""
    elsewhere = [rank for rank in ranks if rank not in host]
    taken = {rank: host[i % len(host)] for i, rank in enumerate(elsewhere)}
    return {rank: taken.get(rank, rank) for rank in ranks}


def held_by(holder: int, holders: dict[int, int]) -> list[int]:
    """Return whose pieces a rank holds."""
    return [rank for rank, found in holders.items() if found == holder]


def cut(flat: torch.Tensor, sizes: dict[int, int]) -> dict[int, torch.Tensor]:
    """Cut flat bytes, in which pieces lie one behind the other, by rank."""
    return dict(zip(sizes, flat.split([*sizes.values()]), strict=True))


_crowds: weakref.WeakKeyDictionary[dist.ProcessGroup, Crowd | None] = (
    weakref.WeakKeyDictionary()
)


def crowd_of(wire: Wire) -> Crowd | None:
    """Return the crowd of a group; None if each host has one rank, or all are on one.

    Every rank of the group calls it, with something to send.
    """
    if wire.is_nccl or wire.counted:
        return None
    if wire.group not in _crowds:
        hosts, box = mailboxes_for(wire)
        hosts = [[wire.ranks[place] for place in host] for host in hosts]
        several = 1 < len(hosts) < len(wire.ranks)
        _crowds[wire.group] = Crowd(hosts, box, wire.me) if several else None
    return _crowds[wire.group]
