"""Join tensors and lists across ranks: what every rank calls."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import distributed as dist

from course_utils.concat import again, agree, gathering, lists, sharing
from course_utils.concat.agree import Call, Offer, Piece
from course_utils.concat.eager import eager
from course_utils.concat.transfer import Wire


@eager
def all_gather_cat(
    shard: torch.Tensor, dim: int = 0, group: dist.ProcessGroup | None = None
) -> torch.Tensor:
    """Return the shards of all ranks, joined along `dim`, on every rank.

    Equals ``torch.cat(shards, dim)`` with the shards in rank order. Shards may
    differ in size along `dim`; 0-dim shards are joined as one element each.

    Returns a contiguous tensor. Memory beside the shard: the result; twice that,
    for a moment, where `dim` is not the first.
    Raises ConcatError on every rank if the shards cannot be joined.
    """
    found = again.attempt(group, "all_gather_cat", shard, dim)
    if isinstance(found, torch.Tensor):
        return found
    call = found or exchange("all_gather_cat", group, shard, dim)
    full, plan = gathering.gather(call, everywhere=True)
    again.remember("all_gather_cat", shard, dim, call, plan)
    return full


@eager
def gather_cat(
    shard: torch.Tensor,
    dst: int = 0,
    dim: int = 0,
    group: dist.ProcessGroup | None = None,
) -> torch.Tensor | None:
    """Return the shards of all ranks, joined along `dim`, on rank `dst` alone.

    dst: rank in the world. Other ranks get None; if gradients are asked for, an
    empty tensor instead, for every rank has to call backward.
    Raises ConcatError on every rank if the shards cannot be joined.
    """
    call = exchange("gather_cat", group, shard, dim, dst)
    full, plan = gathering.gather(call, everywhere=False)
    return full if call.wire.me in plan.holders or full.requires_grad else None


@eager
def broadcast_tensor(
    tensor: torch.Tensor | None,
    src: int = 0,
    group: dist.ProcessGroup | None = None,
) -> torch.Tensor:
    """Return the tensor of rank `src` on every rank.

    tensor: looked at on `src` only, so that receivers pass None: they need to know
    neither shape nor dtype. src: rank in the world. `src` gets its own tensor back.
    Raises ConcatError on every rank if `src` passes no tensor.
    """
    call = exchange("broadcast_tensor", group, tensor, root=src)
    source = only_root(call)
    got = sharing.broadcast(call, source)
    own = call.wire.me == source.root and not source.requires_grad
    return tensor if own else got


@eager
def scatter_chunks(
    full: torch.Tensor | None,
    src: int = 0,
    dim: int = 0,
    group: dist.ProcessGroup | None = None,
) -> torch.Tensor:
    """Return this rank's chunk of the tensor that rank `src` holds.

    The chunks are those of ``torch.tensor_split(full, world_size, dim)``: as even
    as can be, the first ones longer by one. full: ignored but on `src`.
    src: rank in the world.
    Raises ConcatError on every rank if `src` passes no tensor, or `dim` is none.
    """
    call = exchange("scatter_chunks", group, full, dim, src)
    source = only_root(call)
    return sharing.scatter(call, source, checked_dim(call.pieces, source))


@eager
def all_gather_list(
    tensors: Sequence[torch.Tensor] | torch.Tensor,
    group: dist.ProcessGroup | None = None,
) -> list[torch.Tensor]:
    """Return the tensors of all ranks in one list, in rank order, on every rank.

    tensors: a list of any length, or one tensor; shapes and dtypes may differ.
    """
    listed, sent = lists.exchange("all_gather_list", tensors, group)
    return lists.gather(listed, sent, list(listed.pieces))


@eager
def gather_list(
    tensors: Sequence[torch.Tensor] | torch.Tensor,
    dst: int = 0,
    group: dist.ProcessGroup | None = None,
) -> list[torch.Tensor] | None:
    """Return the tensors of all ranks in one list, in rank order, on rank `dst`.

    tensors: as for `all_gather_list`. dst: rank in the world. Other ranks get None;
    if gradients are asked for, a list of empty tensors instead, for every rank has
    to call backward.
    """
    listed, sent = lists.exchange("gather_list", tensors, group, dst)
    full = lists.gather(listed, sent, [listed.root])
    needed = any(tensor.requires_grad for tensor in full)
    return full if listed.wire.me == listed.root or needed else None


def exchange(
    operation: str,
    group: dist.ProcessGroup | None,
    value: torch.Tensor | None,
    dim: int = 0,
    root: int = agree.NONE,
) -> Call:
    """Tell the other ranks of one tensor; on all but the root's rank of none, where
    the operation hands out what the root holds."""
    hands_out = agree.OPERATIONS[operation] == "src"

    def look(root: int, wire: Wire) -> Offer:
        if hands_out and wire.me != root:
            return Offer()
        return agree.offer(operation, value, wire)

    return agree.exchange(operation, group, look, dim, root)


def only_root(call: Call) -> Piece:
    """Check an operation whose root alone passes a tensor; return its piece."""
    pieces = call.pieces
    agree.check_call(pieces)
    root = root_of(pieces)
    agree.check_pieces({root: pieces[root]}, call.wire)
    return pieces[root]._replace(has_room=call.has_room)


def checked_dim(pieces: dict[int, Piece], source: Piece) -> int:
    """Return the dim along which the root's tensor is split, from the front."""
    given = {rank: source._replace(dim=p.dim) for rank, p in pieces.items()}
    return agree.check_joinable(given)


def root_of(pieces: dict[int, Piece]) -> int:
    """Return the rank that all ranks name as the root."""
    return next(iter(pieces.values())).root
