"""A call that looks like the ones before it takes a short way.

Training and evaluation join small shards of one look again and again. For these the
message stands ready, and the memory into which those of the others come. The shard is
copied in, the messages are swapped, and if every rank told what it told before, what
follows is known, too. If one told anything else, the call goes on as any other does,
with what has come. The messages are those of the long way, which other ranks may take.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import distributed as dist

from course_utils.concat import tell
from course_utils.concat.agree import Call, Offer
from course_utils.concat.describe import memory_of
from course_utils.concat.eager import transforming
from course_utils.concat.gathering import Gathering
from course_utils.concat.transfer import TAG

LOOKS = 16  # of a group; when there are more, all are forgotten
Look = tuple[Any, ...]


class Line:
    """The messages of one look, and what all told when it was seen."""

    def __init__(self, look: Look, call: Call, plan: Gathering) -> None:
        ranks, me = call.wire.ranks, call.wire.ranks.index(call.wire.me)
        self.plan, self.wire, self.heads = plan, call.wire.apart, call.heads
        width = len(call.heads) // len(ranks)
        self.frame = tell.Frame(width, tell.slot_of(call.wire))
        step = self.frame.step
        self.memory = bytearray(step * len(ranks))
        flat = torch.frombuffer(self.memory, dtype=torch.uint8)
        self.rows = [slice(i * step, i * step + width) for i in range(len(ranks))]
        own = call.heads[me * width :][:width]
        self.memory[self.rows[me]] = own
        begins = range(self.frame.begin, len(self.memory), step)
        told = zip(begins, plan.sizes, plan.shapes.values(), strict=True)
        self.parts = [
            flat[begin : begin + size].view(plan.dtype).view(shape)
            for begin, size, shape in told
        ]
        self.own = self.parts[me].view(look[-1])
        solid = [part for part in self.parts if part.shape != (0,)]
        self.solid = solid or self.parts
        others = [(me + i) % len(ranks) for i in range(1, len(ranks))]
        messages = flat.split(step)
        self.incoming = [([messages[rank]], rank) for rank in others]
        self.outgoing = [([messages[me]], rank) for rank in others]

    def swap(self, group: dist.ProcessGroup) -> None:
        """Send the message to all ranks, and receive theirs."""
        works = [group.recv(into, rank, TAG) for into, rank in self.incoming]
        works += [group.send(mine, rank, TAG) for mine, rank in self.outgoing]
        for work in works:
            work.wait()

    @property
    def is_as_before(self) -> bool:
        """Whether every rank told what it told before."""
        memory = self.memory
        return b"".join([memory[row] for row in self.rows]) == self.heads


_lines: weakref.WeakKeyDictionary[dist.ProcessGroup, dict[Look, Line | None]] = (
    weakref.WeakKeyDictionary()
)


def attempt(
    group: dist.ProcessGroup | None, operation: str, shard: Any, dim: Any
) -> torch.Tensor | Call | None:
    """Return the whole, if the call is as one before; else what has been agreed on;
    None if nothing was sent."""
    group = dist.group.WORLD if group is None else group
    looks = _lines.get(group) if isinstance(group, dist.ProcessGroup) else None
    line = looks.get(look_of(operation, shard, dim)) if looks else None
    if line is None:
        return None
    full = torch.empty(line.plan.full_shape, dtype=shard.dtype, device="cpu")
    line.own.copy_(shard)
    line.swap(group)
    if line.is_as_before:
        return torch.cat(line.solid, line.plan.dim, out=full)
    wire = line.wire._replace(group=group)
    told = tell.heard(tell.read(line.memory, line.frame, wire), bytearray(), wire)
    return Call(Offer(shard, memory_of(shard)), wire, told.heads, told.early)


def remember(operation: str, shard: Any, dim: Any, call: Call, plan: Gathering) -> None:
    """Have a message stand ready from the third time on that a shard looks so."""
    look, small = look_of(operation, shard, dim), max(plan.sizes) <= tell.EAGER
    if look is None or not small or not call.early or plan.requires_grad:
        return
    looks = _lines.setdefault(call.wire.group, {})
    if look in looks and not call.wire.counted:
        looks[look] = Line(look, call, plan)
    elif len(looks) >= LOOKS:
        looks.clear()
    looks.setdefault(look, None)


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
