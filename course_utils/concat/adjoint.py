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

import torch
from torch import distributed as dist
from torch.autograd.function import once_differentiable

from course_utils.concat.agree import SCALAR, Piece
from course_utils.concat.transfer import as_bytes, packed, spread, swap

Group = dist.ProcessGroup


@dataclass(frozen=True)
class Gathering:
    """Who sends which piece to whom.

    shapes: of every rank's piece, by global rank; dim: along which they are
    joined; holders: the ranks that get the whole.
    """

    shapes: dict[int, tuple[int, ...]]
    dim: int
    holders: list[int]
    group: Group
    dtype: torch.dtype
    device: torch.device

    @property
    def full_shape(self) -> tuple[int, ...]:
        """The shape of the whole."""
        solid = [s for s in self.shapes.values() if s != (0,)] or [(0,)]
        size = sum(s[self.dim] for s in solid)
        return (*solid[0][: self.dim], size, *solid[0][self.dim + 1 :])

    @property
    def in_a_row(self) -> bool:
        """Whether the pieces lie one behind the other in the whole's memory."""
        return math.prod(self.full_shape[: self.dim]) <= 1

    def empty(self, shape: tuple[int, ...]) -> torch.Tensor:
        """Return memory for a tensor of this shape."""
        return torch.empty(shape, dtype=self.dtype, device=self.device)

    def in_bytes(self, flat: torch.Tensor) -> dict[int, torch.Tensor]:
        """Cut memory, in which the pieces lie one behind the other, by rank."""
        sizes = [
            math.prod(shape) * self.dtype.itemsize for shape in self.shapes.values()
        ]
        return dict(zip(self.shapes, as_bytes(flat).split(sizes), strict=True))


def gather(
    shard: torch.Tensor,
    pieces: dict[int, Piece],
    dim: int,
    holders: list[int],
    group: Group,
) -> torch.Tensor:
    """Return the whole on the ranks that hold it, an empty tensor elsewhere."""
    mine = pieces[dist.get_rank()]
    shard = shard.reshape(1) if mine.kind == SCALAR else shard
    shapes = {rank: piece.shape for rank, piece in pieces.items()}
    plan = Gathering(shapes, dim, holders, group, shard.dtype, shard.device)
    if not any(piece.requires_grad for piece in pieces.values()):
        return collect(shard, plan)
    return _Gather.apply(asked(shard), plan)


def collect(shard: torch.Tensor, plan: Gathering) -> torch.Tensor:
    """Move the shards to the ranks that hold the whole."""
    me, mine = dist.get_rank(), as_bytes(packed(shard))
    if me not in plan.holders:
        swap({rank: mine for rank in plan.holders}, {}, plan.group)
        return plan.empty(
            (*plan.full_shape[: plan.dim], 0, *plan.full_shape[plan.dim + 1 :])
        )
    flat = plan.empty(plan.full_shape)
    into = plan.in_bytes(flat)
    if len(plan.holders) == len(plan.shapes):
        spread(mine, into, plan.group)
    else:
        swap({me: mine}, into, plan.group)
    if plan.in_a_row:
        return flat
    sizes = [math.prod(shape) for shape in plan.shapes.values()]
    parts = zip(flat.view(-1).split(sizes), plan.shapes.values(), strict=True)
    return torch.cat([part.view(s) for part, s in parts if s != (0,)], plan.dim)


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, shard: torch.Tensor, plan: Gathering) -> torch.Tensor:
        ctx.plan, ctx.shape = plan, shard.shape
        return collect(shard, plan)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        plan, me = ctx.plan, dist.get_rank()
        outgoing: dict[int, torch.Tensor] = {}
        if me in plan.holders:
            if not plan.in_a_row:
                grad = joined_pieces(grad, plan)
            outgoing = plan.in_bytes(packed(grad))
        incoming = {rank: plan.empty(ctx.shape) for rank in plan.holders}
        swap(outgoing, in_bytes(incoming), plan.group)
        return total(incoming, plan, ctx.shape), None


def joined_pieces(full: torch.Tensor, plan: Gathering) -> torch.Tensor:
    """Return a tensor's pieces one behind the other, flat."""
    sizes = [0 if s == (0,) else s[plan.dim] for s in plan.shapes.values()]
    parts = full.split(sizes, plan.dim)
    return torch.cat([part.reshape(-1) for part in parts])


def total(
    parts: dict[int, torch.Tensor], plan: Gathering, shape: torch.Size
) -> torch.Tensor:
    """Return the sum of tensors, added in the order of the ranks."""
    first, *rest = parts.values()
    for part in rest:
        first += part
    return first.view(shape)


def asked(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor, or a stand-in, such that backward comes by on this rank."""
    return tensor if tensor.requires_grad else tensor.detach().requires_grad_()


def in_bytes(tensors: dict[int, torch.Tensor]) -> dict[int, torch.Tensor]:
    """Return the memory of contiguous tensors as flat bytes."""
    return {rank: as_bytes(tensor) for rank, tensor in tensors.items()}


@dataclass(frozen=True)
class Sharing:
    """One rank sends the same tensor, or a chunk each, to all ranks."""

    root: int
    ranks: list[int]
    shape: tuple[int, ...]
    dim: int | None  # along which it is split; None for the same tensor
    group: Group
    dtype: torch.dtype
    device: torch.device

    def chunk(self, rank: int) -> tuple[int, ...]:
        """Return the shape of what a rank gets."""
        if self.dim is None:
            return self.shape
        size = self.sizes[self.ranks.index(rank)]
        return (*self.shape[: self.dim], size, *self.shape[self.dim + 1 :])

    @property
    def sizes(self) -> list[int]:
        """Chunk sizes along the dim, as `torch.tensor_split` makes them."""
        each, longer = divmod(self.shape[self.dim], len(self.ranks))
        return [each + (i < longer) for i in range(len(self.ranks))]

    def empty(self, rank: int) -> torch.Tensor:
        """Return memory for what a rank gets."""
        return torch.empty(self.chunk(rank), dtype=self.dtype, device=self.device)


def broadcast(
    tensor: torch.Tensor | None, source: Piece, src: int, ranks: list[int], group: Group
) -> torch.Tensor:
    """Return the tensor of rank `src` on every rank."""
    shape = () if source.kind == SCALAR else source.shape
    return share(tensor, source, Sharing(src, ranks, shape, None, *kind(source, group)))


def scatter(
    full: torch.Tensor | None,
    source: Piece,
    src: int,
    dim: int,
    ranks: list[int],
    group: Group,
) -> torch.Tensor:
    """Return this rank's chunk of the tensor of rank `src`."""
    if full is not None and source.kind == SCALAR:
        full = full.reshape(1)
    return share(
        full, source, Sharing(src, ranks, source.shape, dim, *kind(source, group))
    )


def kind(source: Piece, group: Group) -> tuple[Group, torch.dtype, torch.device]:
    """Return group, dtype and device of what is to be received."""
    index = torch.cuda.current_device() if source.device == "cuda" else None
    return group, source.dtype, torch.device(source.device, index)


def share(tensor: torch.Tensor | None, source: Piece, plan: Sharing) -> torch.Tensor:
    """Send what the root holds, with a graph where gradients are asked for."""
    if not source.requires_grad:
        return hand_out(tensor, plan)
    if tensor is None:
        tensor = torch.empty(0, dtype=plan.dtype, device=plan.device)
    return _Share.apply(asked(tensor), plan)


def hand_out(tensor: torch.Tensor | None, plan: Sharing) -> torch.Tensor:
    """Send from the root; return what this rank gets."""
    me = dist.get_rank()
    if me != plan.root:
        mine = plan.empty(me)
        if plan.dim is None:
            dist.distributed_c10d.broadcast(as_bytes(mine), plan.root, plan.group)
        else:
            swap({}, {plan.root: as_bytes(mine)}, plan.group)
        return mine
    if plan.dim is None:
        sent = packed(tensor)
        dist.distributed_c10d.broadcast(as_bytes(sent), plan.root, plan.group)
        return tensor
    chunks = dict(zip(plan.ranks, tensor.split(plan.sizes, plan.dim), strict=True))
    own = chunks.pop(me)
    swap(in_bytes({r: packed(c) for r, c in chunks.items()}), {}, plan.group)
    return own.clone(memory_format=torch.contiguous_format)


class _Share(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor: torch.Tensor, plan: Sharing) -> torch.Tensor:
        ctx.plan = plan
        got = hand_out(tensor, plan)
        return got.view_as(got) if got is tensor else got

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        plan, me = ctx.plan, dist.get_rank()
        mine = {plan.root: as_bytes(packed(grad))}
        if me != plan.root:
            swap(mine, {}, plan.group)
            return torch.empty(0, dtype=plan.dtype, device=plan.device), None
        incoming = {rank: plan.empty(rank) for rank in plan.ranks}
        swap(mine, in_bytes(incoming), plan.group)
        if plan.dim is not None:
            return torch.cat(list(incoming.values()), plan.dim), None
        first, *rest = incoming.values()
        for part in rest:
            first += part
        return first, None
