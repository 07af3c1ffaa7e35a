"""Every rank sends its shard to the ranks that hold the whole."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial

import torch
from torch.autograd.function import once_differentiable

from course_utils.concat import room
from course_utils.concat.adjoint import asked, in_bytes, total, total_in
from course_utils.concat.agree import Call, checked, pieces_of
from course_utils.concat.hosts import spread
from course_utils.concat.tell import KEPT, NEGLIGIBLE, SURE, carried, prepare
from course_utils.concat.transfer import Wire, as_bytes, packed, swap


@dataclass(frozen=True)
class Gathering:
    """Who sends which piece to whom.

    shapes: of every rank's piece, by global rank; dim: along which they are
    joined; holders: the ranks that get the whole; wire: without the group; has_room:
    whether all ranks can get `SURE` bytes; requires_grad: whether any of them asks.
    """

    operation: str
    shapes: dict[int, tuple[int, ...]]
    dim: int
    holders: tuple[int, ...]
    wire: Wire
    dtype: torch.dtype
    has_room: bool
    requires_grad: bool = False

    @cached_property
    def full_shape(self) -> tuple[int, ...]:
        """The shape of the whole."""
        solid = [s for s in self.shapes.values() if s != (0,)] or [(0,)]
        size = sum(s[self.dim] for s in solid)
        return (*solid[0][: self.dim], size, *solid[0][self.dim + 1 :])

    @cached_property
    def in_a_row(self) -> bool:
        """Whether the pieces lie one behind the other in the whole's memory."""
        return math.prod(self.full_shape[: self.dim]) <= 1

    def empty(self, shape: tuple[int, ...]) -> torch.Tensor:
        """Return memory for a tensor of this shape."""
        return room.empty(shape, self.dtype, self.wire.device)

    def rooms(self, arrived: bool) -> tuple[torch.Tensor, torch.Tensor]:
        """Return memory for the pieces, one behind the other, and for the whole.

        arrived: whether the pieces are here already, in memory of their own.
        """
        flat = self.empty(self.full_shape)
        return flat, flat if arrived or self.in_a_row else self.empty(self.full_shape)

    @property
    def is_sure(self) -> bool:
        """Whether every rank will get the memory for the whole."""
        return self.has_room and self.size * (1 if self.in_a_row else 2) <= SURE

    @property
    def size(self) -> int:
        """The bytes of the whole."""
        return sum(self.sizes)

    @cached_property
    def sizes(self) -> list[int]:
        """The bytes of every rank's piece."""
        width = self.dtype.itemsize
        return [math.prod(shape) * width for shape in self.shapes.values()]

    def own_part(self, flat: torch.Tensor) -> torch.Tensor:
        """Return this rank's piece, flat, from the bytes of all pieces in a row."""
        place = self.wire.ranks.index(self.wire.me)
        begin = sum(self.sizes[:place])
        return flat[begin : begin + self.sizes[place]].view(self.dtype)

    def in_bytes(self, flat: torch.Tensor) -> dict[int, torch.Tensor]:
        """Cut memory, in which the pieces lie one behind the other, by rank."""
        return dict(zip(self.shapes, as_bytes(flat).split(self.sizes), strict=True))


@lru_cache(KEPT)
def plan_of(heads: bytes, wire: Wire, everywhere: bool) -> Gathering:
    """Return what to do after all ranks have told `heads`; raise ConcatError if the
    pieces cannot be joined.

    wire: without the group. everywhere: whether all ranks get the whole.
    """
    pieces = pieces_of(heads, wire.ranks)
    dim, own = checked(pieces, wire), pieces[wire.me]
    return Gathering(
        own.operation,
        {rank: piece.shape for rank, piece in pieces.items()},
        dim,
        wire.ranks if everywhere else (own.root,),
        wire,
        own.dtype,
        all(piece.has_room for piece in pieces.values()),
        any(piece.requires_grad for piece in pieces.values()),
    )


def gather(call: Call, everywhere: bool) -> tuple[torch.Tensor, Gathering]:
    """Return the whole on the ranks that hold it, an empty tensor elsewhere, and
    what was done."""
    plan = plan_of(call.heads, call.wire.apart, everywhere)
    shard, sent = call.mine.tensor, call.mine.sent
    arrived = call.arrived(plan.sizes)
    if not plan.requires_grad:
        return collect(sent, plan, call.wire, arrived), plan
    shard = asked(shard if shard.dim() else shard.reshape(1))
    return _Gather.apply(shard, sent, plan, call.wire, arrived), plan


def collect(
    sent: torch.Tensor, plan: Gathering, wire: Wire, arrived: list[torch.Tensor]
) -> torch.Tensor:
    """Move the shards, flat bytes, to the ranks that hold the whole.

    arrived: the shards of all ranks, if they are here already.
    """
    me = plan.wire.me
    holds = me in plan.holders
    make = partial(plan.rooms, bool(arrived)) if holds else tuple
    made = prepare(make, plan.operation, wire, ask=not plan.is_sure)
    if not holds:
        if not arrived:
            swap(dict.fromkeys(plan.holders, sent), {}, wire)
        return plan.empty(
            (*plan.full_shape[: plan.dim], 0, *plan.full_shape[plan.dim + 1 :])
        )
    flat, full = made
    if arrived:
        return joined(arrived, flat, plan)
    if len(plan.holders) == len(plan.shapes):
        spread(sent, plan.in_bytes(flat), wire)
    else:
        swap({me: sent}, plan.in_bytes(flat), wire)
    return flat if full is flat else joined(plan.in_bytes(flat).values(), full, plan)


def joined(
    pieces: Iterable[torch.Tensor], full: torch.Tensor, plan: Gathering
) -> torch.Tensor:
    """Join the pieces of all ranks, flat bytes, in `full`, which is returned."""
    if plan.in_a_row:
        torch.cat(list(pieces), out=as_bytes(full))
        return full
    told = zip(pieces, plan.shapes.values(), strict=True)
    parts = [p.view(plan.dtype).view(shape) for p, shape in told if shape != (0,)]
    return torch.cat(parts, plan.dim, out=full)


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx,
        shard: torch.Tensor,
        sent: torch.Tensor,
        plan: Gathering,
        wire: Wire,
        arrived: list[torch.Tensor],
    ) -> torch.Tensor:
        ctx.plan, ctx.wire, ctx.shape = plan, wire, shard.shape
        return collect(sent, plan, wire, arrived)

    @staticmethod
    @once_differentiable
    def backward(
        ctx, grad: torch.Tensor
    ) -> tuple[torch.Tensor, None, None, None, None]:
        plan, wire, name = ctx.plan, ctx.wire, f"{ctx.plan.operation}, backward"
        made: list[torch.Tensor] = []

        def pieces() -> torch.Tensor:
            return packed(grad if plan.in_a_row else joined_pieces(grad, plan))

        def sent() -> list[torch.Tensor]:
            made.append(plan.empty(ctx.shape))
            return [as_bytes(pieces())] if wire.me in plan.holders else []

        sizes = {rank: plan.size * (rank in plan.holders) for rank in wire.ranks}
        if found := carried(sent, name, wire, sizes):
            own = {r: plan.own_part(found[r]).view(ctx.shape) for r in plan.holders}
            return total_in(made[0], own), None, None, None, None

        def make() -> tuple[dict[int, torch.Tensor], dict[int, torch.Tensor]]:
            holds = wire.me in plan.holders
            outgoing = plan.in_bytes(pieces()) if holds else {}
            return outgoing, {rank: plan.empty(ctx.shape) for rank in plan.holders}

        ask = plan.size * (1 + len(plan.holders)) > NEGLIGIBLE
        outgoing, incoming = prepare(make, name, wire, ask)
        swap(outgoing, in_bytes(incoming), wire)
        return total(incoming), None, None, None, None


def joined_pieces(full: torch.Tensor, plan: Gathering) -> torch.Tensor:
    """Return a tensor's pieces one behind the other, flat."""
    sizes = [0 if s == (0,) else s[plan.dim] for s in plan.shapes.values()]
    parts = full.split(sizes, plan.dim)
    return torch.cat([part.reshape(-1) for part in parts])
