"""Every rank sends its shard to the ranks that hold the whole."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch.autograd.function import once_differentiable

from course_utils.concat.adjoint import asked, in_bytes, total
from course_utils.concat.agree import SCALAR, Offer, Piece
from course_utils.concat.tell import NEGLIGIBLE, SURE, prepare
from course_utils.concat.transfer import Wire, as_bytes, packed, spread, swap


@dataclass(frozen=True)
class Gathering:
    """Who sends which piece to whom.

    shapes: of every rank's piece, by global rank; dim: along which they are
    joined; holders: the ranks that get the whole; has_room: whether all ranks can
    get `SURE` bytes.
    """

    operation: str

    shapes: dict[int, tuple[int, ...]]
    dim: int
    holders: list[int]
    wire: Wire
    dtype: torch.dtype
    has_room: bool

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
        return torch.empty(shape, dtype=self.dtype, device=self.wire.device)

    def room(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return memory for the pieces, one behind the other, and for the whole."""
        flat = self.empty(self.full_shape)
        return flat, flat if self.in_a_row else torch.empty_like(flat)

    @property
    def is_sure(self) -> bool:
        """Whether every rank will get the memory for the whole."""
        return self.has_room and self.size * (1 if self.in_a_row else 2) <= SURE

    @property
    def size(self) -> int:
        """The bytes of the whole."""
        return math.prod(self.full_shape) * self.dtype.itemsize

    def in_bytes(self, flat: torch.Tensor) -> dict[int, torch.Tensor]:
        """Cut memory, in which the pieces lie one behind the other, by rank."""
        sizes = [
            math.prod(shape) * self.dtype.itemsize for shape in self.shapes.values()
        ]
        return dict(zip(self.shapes, as_bytes(flat).split(sizes), strict=True))


def gather(
    mine: Offer,
    pieces: dict[int, Piece],
    dim: int,
    holders: list[int],
    wire: Wire,
) -> torch.Tensor:
    """Return the whole on the ranks that hold it, an empty tensor elsewhere."""
    own = pieces[wire.me]
    shard = mine.tensor.reshape(1) if own.kind == SCALAR else mine.tensor
    plan = Gathering(
        own.operation,
        {rank: piece.shape for rank, piece in pieces.items()},
        dim,
        holders,
        wire,
        shard.dtype,
        all(piece.has_room for piece in pieces.values()),
    )
    if not any(piece.requires_grad for piece in pieces.values()):
        return collect(mine.sent, plan)
    return _Gather.apply(asked(shard), mine.sent, plan)


def collect(sent: torch.Tensor, plan: Gathering) -> torch.Tensor:
    """Move the shards, flat bytes, to the ranks that hold the whole."""
    me = plan.wire.me
    holds = me in plan.holders
    make = plan.room if holds else tuple
    room = prepare(make, plan.operation, plan.wire, ask=not plan.is_sure)
    if not holds:
        swap(dict.fromkeys(plan.holders, sent), {}, plan.wire)
        return plan.empty(
            (*plan.full_shape[: plan.dim], 0, *plan.full_shape[plan.dim + 1 :])
        )
    flat, full = room
    into = plan.in_bytes(flat)
    if len(plan.holders) == len(plan.shapes):
        spread(sent, into, plan.wire)
    else:
        swap({me: sent}, into, plan.wire)
    if full is flat:
        return flat
    sizes = [math.prod(shape) for shape in plan.shapes.values()]
    parts = zip(flat.view(-1).split(sizes), plan.shapes.values(), strict=True)
    return torch.cat([p.view(s) for p, s in parts if s != (0,)], plan.dim, out=full)


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx, shard: torch.Tensor, sent: torch.Tensor, plan: Gathering
    ) -> torch.Tensor:
        ctx.plan, ctx.shape = plan, shard.shape
        return collect(sent, plan)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        plan = ctx.plan

        def make() -> tuple[dict[int, torch.Tensor], dict[int, torch.Tensor]]:
            outgoing: dict[int, torch.Tensor] = {}
            if plan.wire.me in plan.holders:
                pieces = grad if plan.in_a_row else joined_pieces(grad, plan)
                outgoing = plan.in_bytes(packed(pieces))
            return outgoing, {rank: plan.empty(ctx.shape) for rank in plan.holders}

        name = f"{plan.operation}, backward"
        ask = plan.size * (1 + len(plan.holders)) > NEGLIGIBLE
        outgoing, incoming = prepare(make, name, plan.wire, ask)
        swap(outgoing, in_bytes(incoming), plan.wire)
        return total(incoming), None, None


def joined_pieces(full: torch.Tensor, plan: Gathering) -> torch.Tensor:
    """Return a tensor's pieces one behind the other, flat."""
    sizes = [0 if s == (0,) else s[plan.dim] for s in plan.shapes.values()]
    parts = full.split(sizes, plan.dim)
    return torch.cat([part.reshape(-1) for part in parts])
