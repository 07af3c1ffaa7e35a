"""The three ways of moving pieces, each with its exact adjoint.

Gathering: every rank sends its shard to the ranks that hold the whole; backward,
these send the gradient of each slice back, and a shard's is their sum.
Broadcasting: one rank sends a tensor to all; backward, the gradients are summed
there. Scattering: one rank sends a chunk to each; backward, they are joined.
Sums are taken in the order of the ranks, so that they are repeatable to the bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch.autograd.function import once_differentiable

from course_utils.concat.agree import SCALAR, Offer, Piece
from course_utils.concat.tell import NEGLIGIBLE, SURE, prepare
from course_utils.concat.transfer import (
    Wire,
    as_bytes,
    c10d,
    packed,
    spread,
    swap,
)


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

        ask = plan.size * (1 + len(plan.holders)) > NEGLIGIBLE
        outgoing, incoming = prepare(make, backward_of(plan), plan.wire, ask)
        swap(outgoing, in_bytes(incoming), plan.wire)
        return total(incoming), None, None


def backward_of(plan: Gathering | Sharing) -> str:
    """Name the backward pass of an operation."""
    return f"{plan.operation}, backward"


def joined_pieces(full: torch.Tensor, plan: Gathering) -> torch.Tensor:
    """Return a tensor's pieces one behind the other, flat."""
    sizes = [0 if s == (0,) else s[plan.dim] for s in plan.shapes.values()]
    parts = full.split(sizes, plan.dim)
    return torch.cat([part.reshape(-1) for part in parts])


def total(parts: dict[int, torch.Tensor]) -> torch.Tensor:
    """Return the sum of tensors, added in the order of the ranks, in the first."""
    first, *rest = parts.values()
    for part in rest:
        first += part
    return first


def asked(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor, or a stand-in, such that backward comes by on this rank."""
    return tensor if tensor.requires_grad else tensor.detach().requires_grad_()


def in_bytes(tensors: dict[int, torch.Tensor]) -> dict[int, torch.Tensor]:
    """Return the memory of contiguous tensors as flat bytes."""
    return {rank: as_bytes(tensor) for rank, tensor in tensors.items()}


@dataclass(frozen=True)
class Sharing:
    """One rank sends the same tensor, or a chunk each, to all ranks.

    has_room: whether all ranks can get `SURE` bytes.
    """

    operation: str
    root: int
    shape: tuple[int, ...]
    dim: int | None  # along which it is split; None for the same tensor
    wire: Wire
    dtype: torch.dtype
    has_room: bool

    def chunk(self, rank: int) -> tuple[int, ...]:
        """Return the shape of what a rank gets."""
        if self.dim is None:
            return self.shape
        size = self.sizes[self.wire.ranks.index(rank)]
        return (*self.shape[: self.dim], size, *self.shape[self.dim + 1 :])

    @property
    def sizes(self) -> list[int]:
        """Chunk sizes along the dim, as `torch.tensor_split` makes them."""
        each, longer = divmod(self.shape[self.dim], len(self.wire.ranks))
        return [each + (i < longer) for i in range(len(self.wire.ranks))]

    @property
    def is_sure(self) -> bool:
        """Whether every rank will get the memory it needs."""
        return self.has_room and self.size <= SURE

    @property
    def size(self) -> int:
        """The bytes of what the root holds."""
        return math.prod(self.shape) * self.dtype.itemsize

    def empty(self, rank: int) -> torch.Tensor:
        """Return memory for what a rank gets."""
        return torch.empty(self.chunk(rank), **self.kind)

    @property
    def kind(self) -> dict[str, torch.dtype | torch.device]:
        """Return dtype and device of what is sent."""
        return {"dtype": self.dtype, "device": self.wire.device}


def broadcast(mine: Offer, source: Piece, wire: Wire) -> torch.Tensor:
    """Return the tensor of the root on every rank."""
    shape = () if source.kind == SCALAR else source.shape
    return share(mine, source, sharing(source, shape, None, wire))


def scatter(mine: Offer, source: Piece, dim: int, wire: Wire) -> torch.Tensor:
    """Return this rank's chunk of the tensor of the root."""
    if mine.tensor is not None and source.kind == SCALAR:
        mine = Offer(mine.tensor.reshape(1), mine.sent)
    return share(mine, source, sharing(source, source.shape, dim, wire))


def sharing(
    source: Piece,
    shape: tuple[int, ...],
    dim: int | None,
    wire: Wire,
) -> Sharing:
    """Return the plan of sending what the root told of."""
    return Sharing(
        source.operation,
        source.root,
        shape,
        dim,
        wire,
        source.dtype,
        source.has_room,
    )


def share(mine: Offer, source: Piece, plan: Sharing) -> torch.Tensor:
    """Send what the root holds, with a graph where gradients are asked for."""
    if not source.requires_grad:
        return hand_out(mine.tensor, mine.sent, plan)
    tensor = mine.tensor
    if tensor is None:
        tensor = torch.empty(0, **plan.kind)
    return _Share.apply(asked(tensor), mine.sent, plan)


def hand_out(
    tensor: torch.Tensor | None, sent: torch.Tensor | None, plan: Sharing
) -> torch.Tensor:
    """Send from the root; return what this rank gets.

    sent: the root's tensor as flat bytes.
    """
    me = plan.wire.me

    def make() -> dict[int, torch.Tensor]:
        if me != plan.root:
            return {me: plan.empty(me)}
        if plan.dim is None:
            return {me: tensor}
        chunks = zip(
            plan.wire.ranks, tensor.detach().split(plan.sizes, plan.dim), strict=True
        )
        made = {rank: packed(chunk) for rank, chunk in chunks}
        made[me] = made[me].clone()
        return made

    made = prepare(make, plan.operation, plan.wire, ask=not plan.is_sure)
    own = made.pop(me)
    if plan.dim is None:
        flat = sent if me == plan.root else as_bytes(own)
        if flat.numel():
            c10d.broadcast(flat, plan.root, plan.wire.group)
    else:
        outgoing, incoming = in_bytes(made), {plan.root: as_bytes(own)}
        swap(outgoing, {} if me == plan.root else incoming, plan.wire)
    return own


class _Share(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx, tensor: torch.Tensor, sent: torch.Tensor | None, plan: Sharing
    ) -> torch.Tensor:
        ctx.plan = plan
        got = hand_out(tensor, sent, plan)
        return got.view_as(got) if got is tensor else got

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        plan, me = ctx.plan, ctx.plan.wire.me
        is_root = me == plan.root

        def make() -> tuple[torch.Tensor, dict[int, torch.Tensor], torch.Tensor]:
            incoming = {rank: plan.empty(rank) for rank in plan.wire.ranks if is_root}
            joined = is_root and plan.dim is not None
            full = torch.empty(plan.shape, **plan.kind) if joined else None
            return packed(grad), incoming, full

        ask = plan.size * (1 + len(plan.wire.ranks)) > NEGLIGIBLE
        mine, incoming, full = prepare(make, backward_of(plan), plan.wire, ask)
        swap({plan.root: as_bytes(mine)}, in_bytes(incoming), plan.wire)
        if not is_root:
            return torch.empty(0, **plan.kind), None, None
        if full is None:
            return total(incoming), None, None
        return torch.cat(list(incoming.values()), plan.dim, out=full), None, None
