"""A call that looks like the ones before it takes a short way.

Training and evaluation join shards of one look again and again. For these the message
stands ready, and the memory into which those of the others come, or where theirs lie.
The shard is copied in, the messages are swapped, and if every rank told what it told
before, what follows is known, too. If one told anything else, the call goes on as any
other does, with what has come. The messages are those of the long way, which other
ranks may take.
"""

from __future__ import annotations

from array import array
from typing import Any

import torch
from torch import distributed as dist

from course_utils.concat import room, tell
from course_utils.concat.agree import Call, Offer
from course_utils.concat.describe import memory_of
from course_utils.concat.eager import transforming
from course_utils.concat.gathering import Gathering
from course_utils.concat.shared import Berth, Dock, dock_of
from course_utils.concat.transfer import TAG

LOOKS = 16  # of a group; when there are more, all are forgotten
Look = tuple[Any, ...]
Places = dict[bytes, torch.Tensor]  # by the berth that says where, views of pieces


class Line:
    """The messages of one look, and what all told when it was seen.

    places: where each rank's piece may lie; own: this rank's, and the berth that says
    so, by where it begins; solid: whose pieces torch.cat is given.
    """

    def __init__(self, look: Look, call: Call, plan: Gathering, dock: Dock) -> None:
        ranks, me = call.wire.ranks, call.wire.ranks.index(call.wire.me)
        self.plan, self.wire, self.heads = plan, call.wire.apart, call.heads
        width = len(call.heads) // len(ranks)
        self.frame = tell.Frame(width, tell.slot_of(call.wire))
        step = self.frame.step
        self.memory = bytearray(step * len(ranks))
        messages = torch.frombuffer(self.memory, dtype=torch.uint8).split(step)
        self.rows = [slice(i * step, i * step + width) for i in range(len(ranks))]
        self.berths = [slice(r.stop, r.stop + tell.WHERE) for r in self.rows]
        self.memory[self.rows[me]] = call.heads[me * width :][:width]
        self.places = [
            places(
                call.berths.get(rank),
                dock.flats.get(rank),
                messages[i][self.frame.begin :],
                plan,
                i,
            )
            for i, rank in enumerate(ranks)
        ]
        self.me, berth = me, call.berths.get(call.wire.me)
        self.serial = berth.serial if berth else 0  # of the memory it is loaded into
        self.own = {
            Berth(*array("q", at)).start: (at, part.view(look[-1]))
            for at, part in self.places[me].items()
        }
        shapes = [*plan.shapes.values()]
        self.solid = [i for i, s in enumerate(shapes) if s != (0,)] or [0]
        self.box = tell.mailbox_for(call.wire, step)
        parts = [memoryview(self.memory)[i * step :][:step] for i in range(len(ranks))]
        self.mine, self.parts = parts[me], parts
        others = [(me + i) % len(ranks) for i in range(1, len(ranks))]
        self.incoming = [([messages[rank]], rank) for rank in others]
        self.outgoing = [([messages[me]], rank) for rank in others]

    def load(self, shard: torch.Tensor, dock: Dock) -> None:
        """Copy the shard to where the others find it, and write where that is."""
        at, own = self.own[dock.next_start() if self.serial else 0]
        self.memory[self.berths[self.me]] = at
        own.copy_(shard)

    def swap(self, group: dist.ProcessGroup) -> None:
        """Send the message to all ranks, and receive theirs."""
        if self.box:
            self.box.swap(self.mine, self.parts, group)
            return
        works = [group.recv(into, rank, TAG) for into, rank in self.incoming]
        works += [group.send(mine, rank, TAG) for mine, rank in self.outgoing]
        for work in works:
            work.wait()

    def pieces(self) -> list[torch.Tensor]:
        """Return the pieces of all ranks that have some; nothing if a rank told
        anything else than before, or its piece lies in another memory."""
        memory = self.memory
        if b"".join([memory[row] for row in self.rows]) != self.heads:
            return []
        told = [(self.places[i], bytes(memory[self.berths[i]])) for i in self.solid]
        known = all([at in there for there, at in told])
        return [there[at] for there, at in told] if known else []


def places(
    berth: Berth | None,
    shared: torch.Tensor | None,
    slot: torch.Tensor,
    plan: Gathering,
    rank: int,
) -> Places:
    """Return where a rank's piece may lie: in its message, or in either half of its
    shared memory. rank: in the group."""
    shape, size = [*plan.shapes.values()][rank], plan.sizes[rank]
    found = {tell.NOWHERE: slot}
    if berth is not None:
        starts = 0, shared.numel() // 2
        found = {packed_berth(berth, start): shared[start:] for start in starts}
    return {at: p[:size].view(plan.dtype).view(shape) for at, p in found.items()}


def packed_berth(berth: Berth, start: int) -> bytes:
    """Return a berth that begins at `start`, as it stands in a message."""
    return array("q", berth._replace(start=start)).tobytes()


def attempt(
    group: dist.ProcessGroup | None, operation: str, shard: Any, dim: Any
) -> torch.Tensor | Call | None:
    """Return the whole, if the call is as one before; else what has been agreed on;
    None if nothing was sent."""
    group = dist.group.WORLD if group is None else group
    if not isinstance(group, dist.ProcessGroup):
        return None
    dock = dock_of(group)
    look = look_of(operation, shard, dim) if dock.ready else None
    line = dock.ready.get(look)
    if line is None or line.serial and line.serial != dock.own.serial:
        return None
    try:
        full = room.empty(line.plan.full_shape, shard.dtype, "cpu")
    except (RuntimeError, MemoryError):  # which the others have to hear of
        return None
    line.load(shard, dock)
    line.swap(group)
    if pieces := line.pieces():
        return torch.cat(pieces, line.plan.dim, out=full)
    wire = line.wire._replace(group=group)
    told = tell.heard(tell.read(line.memory, line.frame, wire), bytearray(), wire)
    mine = Offer(shard, memory_of(shard))
    return Call(mine, wire, told.heads, told.early, told.berths)


def remember(operation: str, shard: Any, dim: Any, call: Call, plan: Gathering) -> None:
    """Have a message stand ready from the third time on that a shard looks so."""
    look = look_of(operation, shard, dim)
    if look is None or call.wire.counted or plan.requires_grad or not plan.is_sure:
        return
    if not call.arrived(plan.sizes):
        return
    dock = dock_of(call.wire.group)
    if look in dock.ready:
        dock.ready[look] = Line(look, call, plan, dock)
    elif len(dock.ready) >= LOOKS:
        dock.ready.clear()
    dock.ready.setdefault(look, None)


def look_of(operation: str, shard: Any, dim: Any) -> Look | None:
    """Return all of a shard that its rank tells, and what is told of the call; None
    for what is not an ordinary tensor in memory."""
    if transforming() or type(shard) is not torch.Tensor or type(dim) is not int:
        return None
    if shard.is_nested or shard.layout != torch.strided:
        return None
    if not shard.is_cpu or shard.requires_grad:
        return None
    if shard.numel() and not shard.data_ptr():
        return None
    kind = shard.dtype, shard.shape
    return operation, dim, torch.is_grad_enabled(), tell.EAGER, *kind
