"""One rank sends the same tensor, or a chunk each, to all ranks.

How the same tensor travels between hosts, see `relay`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch.autograd.function import once_differentiable

from course_utils.concat import room
from course_utils.concat.adjoint import asked, in_bytes, total, total_in
from course_utils.concat.agree import SCALAR, Call, Offer, Piece
from course_utils.concat.relay import relay
from course_utils.concat.tell import NEGLIGIBLE, SURE, carried, prepare
from course_utils.concat.transfer import Wire, as_bytes, packed, swap


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

    def part_of(self, flat: torch.Tensor) -> torch.Tensor:
        """Return what this rank gets, from the bytes of all."""
        full = flat.view(self.dtype).view(self.shape)
        if self.dim is None:
            return full
        return full.split(self.sizes, self.dim)[self.wire.ranks.index(self.wire.me)]

    def returned(
        self, found: dict[int, torch.Tensor], full: torch.Tensor
    ) -> torch.Tensor:
        """Return, in `full`, the gradient of what the root holds, from the bytes of
        all ranks'; an empty tensor elsewhere."""
        if self.wire.me != self.root:
            return full
        parts = {r: t.view(self.dtype).view(self.chunk(r)) for r, t in found.items()}
        if self.dim is None:
            return total_in(full, parts)
        return torch.cat(list(parts.values()), self.dim, out=full)

    def empty(self, rank: int) -> torch.Tensor:
        """Return memory for what a rank gets."""
        return room.empty(self.chunk(rank), **self.kind)

    @property
    def kind(self) -> dict[str, torch.dtype | torch.device]:
        """Return dtype and device of what is sent."""
        return {"dtype": self.dtype, "device": self.wire.device}


def broadcast(call: Call, source: Piece) -> torch.Tensor:
    """Return the tensor of the root on every rank."""
    shape = () if source.kind == SCALAR else source.shape
    return share(call, source, sharing(source, shape, None, call.wire))


def scatter(call: Call, source: Piece, dim: int) -> torch.Tensor:
    """Return this rank's chunk of the tensor of the root."""
    mine = call.mine
    if mine.tensor is not None and source.kind == SCALAR:
        call = call._replace(mine=Offer(mine.tensor.reshape(1), mine.sent))
    return share(call, source, sharing(source, source.shape, dim, call.wire))


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


def share(call: Call, source: Piece, plan: Sharing) -> torch.Tensor:
    """Send what the root holds, with a graph where gradients are asked for."""
    tensor, sent = call.mine.tensor, call.mine.sent
    parts = call.arrived([piece.size for piece in call.pieces.values()])
    arrived = parts[call.wire.ranks.index(plan.root)] if parts else None
    if not source.requires_grad:
        return hand_out(tensor, sent, plan, arrived)
    if tensor is None:
        tensor = torch.empty(0, **plan.kind)
    return _Share.apply(asked(tensor), sent, plan, arrived)


def hand_out(
    tensor: torch.Tensor | None,
    sent: torch.Tensor | None,
    plan: Sharing,
    arrived: torch.Tensor | None,
) -> torch.Tensor:
    """Send from the root; return what this rank gets.

    sent: the root's tensor as flat bytes; arrived: the same, if it is here already.
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
        return {
            rank: chunk.clone(memory_format=torch.contiguous_format)
            if rank == me
            else packed(chunk)
            for rank, chunk in chunks
        }

    made = prepare(make, plan.operation, plan.wire, ask=not plan.is_sure)
    own = made.pop(me)
    if arrived is not None:
        if me != plan.root:
            own.copy_(plan.part_of(arrived))
    elif plan.dim is None:
        flat = sent if me == plan.root else as_bytes(own)
        if flat.numel():
            relay(flat, plan.root, plan.wire)
    else:
        outgoing, incoming = in_bytes(made), {plan.root: as_bytes(own)}
        swap(outgoing, {} if me == plan.root else incoming, plan.wire)
    return own


class _Share(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx,
        tensor: torch.Tensor,
        sent: torch.Tensor | None,
        plan: Sharing,
        arrived: torch.Tensor | None,
    ) -> torch.Tensor:
        ctx.plan = plan
        got = hand_out(tensor, sent, plan, arrived)
        return got.view_as(got) if got is tensor else got

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        plan, me = ctx.plan, ctx.plan.wire.me
        is_root, name = me == plan.root, f"{plan.operation}, backward"
        width, made = plan.dtype.itemsize, []

        def sent() -> list[torch.Tensor]:
            made.append(room.empty(plan.shape if is_root else [0], **plan.kind))
            return [as_bytes(packed(grad))]

        sizes = {rank: math.prod(plan.chunk(rank)) * width for rank in plan.wire.ranks}
        if found := carried(sent, name, plan.wire, sizes):
            return plan.returned(found, made[0]), None, None, None

        def make() -> tuple[torch.Tensor, dict[int, torch.Tensor], torch.Tensor]:
            incoming = {rank: plan.empty(rank) for rank in plan.wire.ranks if is_root}
            joined = is_root and plan.dim is not None
            full = room.empty(plan.shape, **plan.kind) if joined else None
            return packed(grad), incoming, full

        ask = plan.size * (1 + len(plan.wire.ranks)) > NEGLIGIBLE
        mine, incoming, full = prepare(make, name, plan.wire, ask)
        swap({plan.root: as_bytes(mine)}, in_bytes(incoming), plan.wire)
        if not is_root:
            return torch.empty(0, **plan.kind), None, None, None
        if full is None:
            return total(incoming), None, None, None
        joined = torch.cat(list(incoming.values()), plan.dim, out=full)
        return joined, None, None, None
