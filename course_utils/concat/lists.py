"""Join lists of tensors of any shapes and dtypes across ranks.

Each rank first tells the others what its list holds; then the memory of all its
tensors travels as one message.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import distributed as dist
from torch.autograd.function import once_differentiable

from course_utils.concat import agree
from course_utils.concat.adjoint import Gathering, asked, collect
from course_utils.concat.agree import NOTHING, ConcatError, Piece
from course_utils.concat.transfer import as_bytes, packed, spread, swap
from course_utils.text import these_ranks

ALIGN = 16  # bytes; so that every dtype may begin where a tensor does


@dataclass(frozen=True)
class Listed:
    """The lists of all ranks, as far as they told, and this rank's tensors."""

    pieces: dict[int, list[Piece]]
    tensors: list[torch.Tensor]
    device: torch.device
    group: dist.ProcessGroup

    def spans(self, rank: int) -> list[tuple[int, int]]:
        """Return where each tensor of a rank lies in its message, in bytes."""
        spans, start = [], 0
        for piece in self.pieces[rank]:
            end = start + math.prod(piece.shape) * piece.dtype.itemsize
            spans.append((start, end))
            start = -(-end // ALIGN) * ALIGN
        return spans

    def size(self, rank: int) -> int:
        """Return the bytes of a rank's message."""
        spans = self.spans(rank)
        return -(-spans[-1][1] // ALIGN) * ALIGN if spans else 0

    def message(self, tensors: Sequence[torch.Tensor], rank: int) -> torch.Tensor:
        """Return the memory of tensors, laid out as those of a rank."""
        flat = self.memory(self.size(rank))
        for tensor, (start, end) in zip(tensors, self.spans(rank), strict=True):
            flat[start:end] = as_bytes(packed(tensor))
        return flat

    def read(self, flat: torch.Tensor, rank: int) -> list[torch.Tensor]:
        """Return the tensors in a rank's message, as views of it."""
        found = []
        for piece, (start, end) in zip(
            self.pieces[rank], self.spans(rank), strict=True
        ):
            shape = () if piece.kind == agree.SCALAR else piece.shape
            found.append(flat[start:end].view(piece.dtype).view(shape))
        return found

    def memory(self, size: int) -> torch.Tensor:
        """Return memory for a message."""
        return torch.empty(size, dtype=torch.uint8, device=self.device)


def exchange(
    operation: str,
    tensors: Sequence[torch.Tensor] | torch.Tensor,
    group: dist.ProcessGroup,
    root: int = agree.NONE,
) -> Listed:
    """Tell the other ranks what this rank's list holds; check what all told."""
    if isinstance(tensors, torch.Tensor):
        tensors = [tensors]
    good = isinstance(tensors, (list, tuple))
    listed = list(tensors) if good else [None]
    device = torch.device("cuda" if "nccl" in dist.get_backend(group) else "cpu")
    rows = [agree.record(operation, tensor, 0, root) for tensor in listed]
    width = len(agree.record(operation, None, 0, root))
    header = torch.tensor(rows, dtype=torch.int64, device=device).view(-1, width)
    pieces = agree.exchange_pieces(operation, header, group, 0, root)
    pieces = {
        rank: replace(piece, requires_grad=False) for rank, piece in pieces.items()
    }
    agree.check_call(pieces)
    shapes = {rank: piece.shape for rank, piece in pieces.items()}
    plan = Gathering(shapes, 0, list(pieces), group, torch.int64, device)
    headers = collect(header, plan).split([shape[0] for shape in shapes.values()])
    told = {
        rank: [agree.piece(row) for row in part.tolist()]
        for rank, part in zip(pieces, headers, strict=True)
    }
    check(told, dist.get_backend(group))
    return Listed(told, listed, device, group)


def check(told: dict[int, list[Piece]], backend: str) -> None:
    """Raise ConcatError unless every item of every list is a tensor to be sent."""
    longest = max(map(len, told.values()))
    for i in range(longest):
        column = {rank: items[i] for rank, items in told.items() if i < len(items)}
        empty = [rank for rank, piece in column.items() if piece.kind == NOTHING]
        if empty:
            raise ConcatError(
                f"{agree.name_of(column)}: expected a list of tensors, but item {i} "
                f"on {these_ranks(empty)} is none"
            )
        agree.check_pieces(column, backend)
        agree.check_call({r: replace(p, root=agree.NONE) for r, p in column.items()})


def gather(
    listed: Listed, holders: list[int], group: dist.ProcessGroup
) -> list[torch.Tensor]:
    """Return the tensors of all ranks on the holders, empty tensors elsewhere."""
    wanted = any(p.requires_grad for items in listed.pieces.values() for p in items)
    if not wanted:
        return move(listed, listed.tensors, holders)
    sources = [t if t.requires_grad else stand_in(t) for t in listed.tensors]
    if not any(t.requires_grad for t in sources):  # nothing of ours can ask for it
        sources.append(torch.empty(0, requires_grad=True))
    return list(_GatherList.apply(listed, holders, *sources))


def stand_in(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor such that backward comes by, where its dtype allows."""
    differentiable = tensor.dtype.is_floating_point or tensor.dtype.is_complex
    return asked(tensor) if differentiable else tensor


def move(
    listed: Listed, tensors: Sequence[torch.Tensor], holders: list[int]
) -> list[torch.Tensor]:
    """Send this rank's tensors to the holders; return all that they hold."""
    me, group = dist.get_rank(), listed.group
    mine = listed.message(tensors[: len(listed.pieces[me])], me)
    if me not in holders:
        swap({rank: mine for rank in holders}, {}, group)
        return [
            torch.empty(0, dtype=piece.dtype, device=listed.device)
            for items in listed.pieces.values()
            for piece in items
        ]
    sizes = {rank: listed.size(rank) for rank in listed.pieces}
    flat = listed.memory(sum(sizes.values()))
    into = dict(zip(sizes, flat.split(list(sizes.values())), strict=True))
    if len(holders) == len(sizes):
        spread(mine, into, group)
    else:
        swap({me: mine}, into, group)
    return [t for rank, part in into.items() for t in listed.read(part, rank)]


class _GatherList(torch.autograd.Function):
    @staticmethod
    def forward(ctx, listed: Listed, holders: list[int], *tensors: torch.Tensor):
        ctx.listed, ctx.holders, ctx.count = listed, holders, len(tensors)
        full = [tensor.clone() for tensor in move(listed, tensors, holders)]
        flags = [p.requires_grad for items in listed.pieces.values() for p in items]
        ctx.mark_non_differentiable(
            *[t for t, asked_for in zip(full, flags, strict=True) if not asked_for]
        )
        return tuple(full)

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads: torch.Tensor):
        listed, me = ctx.listed, dist.get_rank()
        outgoing, start = {}, 0
        for rank, items in listed.pieces.items():
            if me in ctx.holders:
                own = grads[start : start + len(items)]
                outgoing[rank] = listed.message(own, rank)
            start += len(items)
        incoming = {rank: listed.memory(listed.size(me)) for rank in ctx.holders}
        swap(outgoing, incoming, listed.group)
        first, *rest = [listed.read(flat, me) for flat in incoming.values()]
        for part in rest:
            for total, more in zip(first, part, strict=True):
                total += more
        spare = [None] * (ctx.count - len(first))
        asked_for = [piece.requires_grad for piece in listed.pieces[me]]
        mine = [
            g if wanted else None for g, wanted in zip(first, asked_for, strict=True)
        ]
        return None, None, *mine, *spare
