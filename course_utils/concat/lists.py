"""Join lists of tensors of any shapes and dtypes across ranks.

Each rank first tells the others what its list holds; then the memory of all its
tensors travels as one message.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import distributed as dist
from torch.autograd.function import once_differentiable

from course_utils.concat import agree, room
from course_utils.concat.adjoint import asked
from course_utils.concat.agree import Call, Offer, Piece
from course_utils.concat.describe import items_of, memory_of
from course_utils.concat.gathering import Gathering, collect
from course_utils.concat.hosts import spread
from course_utils.concat.tell import NEGLIGIBLE, SURE, carried, prepare
from course_utils.concat.transfer import Wire, swap

ALIGN = 16  # bytes; so that every dtype may begin where a tensor does


def spans(pieces: list[Piece]) -> list[tuple[int, int]]:
    """Return where each tensor lies in a rank's message, in bytes."""
    found, start = [], 0
    for piece in pieces:
        end = start + math.prod(piece.shape) * piece.dtype.itemsize
        found.append((start, end))
        start = -(-end // ALIGN) * ALIGN
    return found


def length(pieces: list[Piece]) -> int:
    """Return the bytes of a rank's message."""
    return -(-spans(pieces)[-1][1] // ALIGN) * ALIGN if pieces else 0


def message(
    tensors: Sequence[torch.Tensor | None], pieces: list[Piece], device: torch.device
) -> torch.Tensor:
    """Return the memory of tensors, one behind the other; zeros for None."""
    flat = room.empty([length(pieces)], torch.uint8, device)
    for tensor, (start, end) in zip(tensors, spans(pieces), strict=True):
        part = flat[start:end]
        part.zero_() if tensor is None else part.copy_(memory_of(tensor))
    return flat


class Messages(NamedTuple):
    """This rank's message, and those of all if they are here already."""

    mine: torch.Tensor
    arrived: list[torch.Tensor]


@dataclass(frozen=True)
class Listed:
    """The lists of all ranks, as far as they told, and this rank's tensors.

    has_room: whether all ranks can get `SURE` bytes.
    """

    operation: str
    pieces: dict[int, list[Piece]]
    tensors: list[torch.Tensor]
    wire: Wire
    root: int
    has_room: bool

    @property
    def is_sure(self) -> bool:
        """Whether every rank will get the memory for the messages of all."""
        return self.has_room and self.size <= SURE

    @property
    def size(self) -> int:
        """The bytes of all messages."""
        return sum(map(length, self.pieces.values()))

    def read(self, flat: torch.Tensor, rank: int) -> list[torch.Tensor]:
        """Return the tensors in a rank's message, as views of it."""
        found = []
        pieces = self.pieces[rank]
        for piece, (start, end) in zip(pieces, spans(pieces), strict=True):
            shape = () if piece.kind == agree.SCALAR else piece.shape
            found.append(flat[start:end].view(piece.dtype).view(shape))
        return found


def exchange(
    operation: str,
    tensors: Sequence[torch.Tensor] | torch.Tensor,
    group: dist.ProcessGroup | None,
    root: int = agree.NONE,
) -> tuple[Listed, Messages]:
    """Tell the other ranks what this rank's list holds; check what all told."""
    items: list[torch.Tensor] = []
    sent: list[torch.Tensor] = []

    def look(root: int, wire: Wire) -> Offer:
        items.extend(items_of(tensors, operation))
        device = wire.device
        rows = [agree.record(operation, Offer(t), 0, root) for t in items]
        if all(tensor.device.type == device.type for tensor in items):
            sent.append(message(items, list(map(agree.piece, rows)), device))
        header = torch.tensor(rows, dtype=torch.int64, device=device).view(
            -1, agree.WIDTH
        )
        return Offer(header, memory_of(header), *sent)

    call = agree.exchange(operation, group, look, 0, root)
    mine, pieces, wire = call.mine, call.pieces, call.wire
    agree.check_call(pieces)
    shapes = {rank: piece.shape for rank, piece in pieces.items()}
    kind = mine.tensor.dtype
    plan = Gathering(operation, shapes, 0, wire.ranks, wire, kind, call.has_room)
    headers = collect(mine.sent, plan, wire, call.arrived(plan.sizes)).split(
        [shape[0] for shape in shapes.values()]
    )
    told = {
        rank: [agree.piece(row) for row in part.tolist()]
        for rank, part in zip(pieces, headers, strict=True)
    }
    check(told, wire)
    root = next(iter(pieces.values())).root
    listed = Listed(operation, told, items, wire, root, call.has_room)
    return listed, Messages(sent[0], arrived(call, listed))


def arrived(call: Call, listed: Listed) -> list[torch.Tensor]:
    """Return the messages of all ranks, if all have travelled with the rows."""
    begins = [piece.size for piece in call.pieces.values()]
    lengths = map(length, listed.pieces.values())
    ends = [begin + size for begin, size in zip(begins, lengths, strict=True)]
    both = zip(call.arrived(ends), begins, strict=False)
    return [part[begin:] for part, begin in both]


def check(told: dict[int, list[Piece]], wire: Wire) -> None:
    """Raise ConcatError unless every item of every list can be sent."""
    longest = max(map(len, told.values()))
    for i in range(longest):
        column = {rank: items[i] for rank, items in told.items() if i < len(items)}
        agree.check_pieces(column, wire)
        agree.check_grad(column)


def gather(listed: Listed, sent: Messages, holders: list[int]) -> list[torch.Tensor]:
    """Return the tensors of all ranks on the holders, empty tensors elsewhere."""
    wanted = any(p.requires_grad for items in listed.pieces.values() for p in items)
    if not wanted:
        return move(listed, sent, holders)
    sources = [t if t.requires_grad else stand_in(t) for t in listed.tensors]
    if not any(t.requires_grad for t in sources):  # nothing of ours can ask for it
        sources.append(torch.empty(0, requires_grad=True))
    return list(_GatherList.apply(listed, sent, holders, *sources))


def stand_in(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor such that backward comes by, where its dtype allows."""
    differentiable = tensor.dtype.is_floating_point or tensor.dtype.is_complex
    return asked(tensor) if differentiable else tensor


def move(listed: Listed, sent: Messages, holders: list[int]) -> list[torch.Tensor]:
    """Send this rank's message to the holders; return all tensors that they hold."""
    wire, me, mine = listed.wire, listed.wire.me, sent.mine
    sizes = {rank: length(pieces) for rank, pieces in listed.pieces.items()}

    def make() -> torch.Tensor:
        size = sum(sizes.values()) if me in holders else 0
        return room.empty([size], mine.dtype, mine.device)

    flat = prepare(make, listed.operation, wire, ask=not listed.is_sure)
    if me not in holders:
        if not sent.arrived:
            swap({rank: mine for rank in holders}, {}, wire)
        return [
            torch.empty(0, dtype=piece.dtype, device=wire.device)
            for items in listed.pieces.values()
            for piece in items
        ]
    into = dict(zip(sizes, flat.split(list(sizes.values())), strict=True))
    if sent.arrived:
        torch.cat(sent.arrived, out=flat)
    elif len(holders) == len(sizes):
        spread(mine, into, wire)
    else:
        swap({me: mine}, into, wire)
    return [t for rank, part in into.items() for t in listed.read(part, rank)]


def on_its_own(view: torch.Tensor) -> torch.Tensor:
    """Return a tensor with the memory of a view that counts as none.

    What a function of autograd returns must not be views of one tensor.
    """
    fresh = torch.empty(0, dtype=view.dtype, device=view.device)
    memory, start = view.untyped_storage(), view.storage_offset()
    return fresh.set_(memory, start, view.shape, view.stride())


def returned(
    outgoing: Callable[[], dict[int, torch.Tensor]], listed: Listed, holders: list[int]
) -> list[torch.Tensor]:
    """Send gradients back; return the messages for this rank, of each of the holders.

    outgoing: makes those that this rank sends, by rank. The first is memory of its own.
    """
    wire, name = listed.wire, f"{listed.operation}, backward"
    lengths = [length(pieces) for pieces in listed.pieces.values()]
    place = wire.ranks.index(wire.me)
    begin, size = sum(lengths[:place]), lengths[place]

    def empty() -> torch.Tensor:
        return room.empty([size], torch.uint8, wire.device)

    def sent() -> list[torch.Tensor]:
        own.append(empty())
        return list(outgoing().values())

    def make() -> tuple[dict[int, torch.Tensor], dict[int, torch.Tensor]]:
        return outgoing(), {rank: empty() for rank in holders}

    own: list[torch.Tensor] = []
    sizes = {rank: listed.size * (rank in holders) for rank in wire.ranks}
    if found := carried(sent, name, wire, sizes):
        first, *rest = [found[rank][begin : begin + size] for rank in holders]
        return [own[0].copy_(first), *rest]
    ask = listed.size * (1 + len(holders)) > NEGLIGIBLE
    there, here = prepare(make, name, wire, ask)
    swap(there, here, wire)
    return list(here.values())


class _GatherList(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx,
        listed: Listed,
        sent: Messages,
        holders: list[int],
        *tensors: torch.Tensor,
    ):
        ctx.listed, ctx.holders, ctx.count = listed, holders, len(tensors)
        ctx.set_materialize_grads(False)
        full = [on_its_own(tensor) for tensor in move(listed, sent, holders)]
        flags = [p.requires_grad for items in listed.pieces.values() for p in items]
        ctx.mark_non_differentiable(
            *[t for t, asked_for in zip(full, flags, strict=True) if not asked_for]
        )
        return tuple(full)

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads: torch.Tensor):
        listed, me = ctx.listed, ctx.listed.wire.me

        def outgoing() -> dict[int, torch.Tensor]:
            made, start = {}, 0
            for rank, items in listed.pieces.items():
                if me in ctx.holders:
                    own = grads[start : start + len(items)]
                    made[rank] = message(own, items, listed.wire.device)
                start += len(items)
            return made

        incoming = returned(outgoing, listed, ctx.holders)
        first, *rest = [listed.read(flat, me) for flat in incoming]
        for part in rest:
            for total, more in zip(first, part, strict=True):
                total += more
        spare = [None] * (ctx.count - len(first))
        asked_for = [piece.requires_grad for piece in listed.pieces[me]]
        mine = [
            g if wanted else None for g, wanted in zip(first, asked_for, strict=True)
        ]
        return None, None, None, *mine, *spare
