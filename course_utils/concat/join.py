"""Join tensors and lists across ranks: what every rank calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import distributed as dist

from course_utils.concat import adjoint, lists
from course_utils.concat.agree import (
    Piece,
    check_call,
    check_joinable,
    check_pieces,
    exchange_pieces,
)


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
    group = member(group)
    pieces = exchange_pieces("all_gather_cat", shard, group, dim)
    dim = checked(pieces, group)
    return adjoint.gather(shard, pieces, dim, list(pieces), group)


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
    group = member(group)
    pieces = exchange_pieces("gather_cat", shard, group, dim, dst)
    dim = checked(pieces, group)
    full = adjoint.gather(shard, pieces, dim, [dst], group)
    return full if dist.get_rank() == dst or full.requires_grad else None


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
    group = member(group)
    mine = tensor if dist.get_rank() == src else None
    pieces = exchange_pieces("broadcast_tensor", mine, group, 0, src)
    source = only_root(pieces, group)
    return adjoint.broadcast(mine, source, src, list(pieces), group)


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
    group = member(group)
    mine = full if dist.get_rank() == src else None
    pieces = exchange_pieces("scatter_chunks", mine, group, dim, src)
    source = only_root(pieces, group)
    dim = checked_dim(pieces, source)
    return adjoint.scatter(mine, source, src, dim, list(pieces), group)


def all_gather_list(
    tensors: Sequence[torch.Tensor] | torch.Tensor,
    group: dist.ProcessGroup | None = None,
) -> list[torch.Tensor]:
    """Return the tensors of all ranks in one list, in rank order, on every rank.

    tensors: a list of any length, or one tensor; shapes and dtypes may differ.
    """
    group = member(group)
    listed = lists.exchange("all_gather_list", tensors, group)
    return lists.gather(listed, list(listed.pieces), group)


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
    group = member(group)
    listed = lists.exchange("gather_list", tensors, group, dst)
    full = lists.gather(listed, [dst], group)
    needed = any(tensor.requires_grad for tensor in full)
    return full if dist.get_rank() == dst or needed else None


def member(group: dist.ProcessGroup | None) -> dist.ProcessGroup:
    """Return the group, the default one for None; raise where it cannot be used."""
    if not dist.is_initialized():
        raise RuntimeError(
            "no process group: call dist.init_process_group() first, on every rank"
        )
    group = dist.group.WORLD if group is None else group
    if not isinstance(group, dist.ProcessGroup) or dist.get_rank(group) < 0:
        raise ValueError(
            f"group: rank {dist.get_rank()} is not in it; only its ranks may call this"
        )
    return group


def checked(pieces: dict[int, Piece], group: dist.ProcessGroup) -> int:
    """Check pieces that are to be joined; return the dim, counted from the front."""
    check_call(pieces)
    check_pieces(pieces, dist.get_backend(group))
    return check_joinable(pieces)


def only_root(pieces: dict[int, Piece], group: dist.ProcessGroup) -> Piece:
    """Check an operation whose root alone passes a tensor; return its piece."""
    check_call(pieces)
    root = next(iter(pieces.values())).root
    check_pieces({root: pieces[root]}, dist.get_backend(group))
    return pieces[root]


def checked_dim(pieces: dict[int, Piece], source: Piece) -> int:
    """Return the dim along which the root's tensor is split, from the front."""
    given = {rank: replace(source, dim=p.dim) for rank, p in pieces.items()}
    return check_joinable(given)
