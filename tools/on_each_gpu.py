"""What each rank does for `try_gpus`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import torch
from torch import distributed as dist

from course_utils import concat, guard
from course_utils.measure import seconds
from course_utils.process_group import device

SIZES = [2**power for power in range(10, 25, 2)]  # bytes of a shard, for the fit
DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.bool)


def differing() -> list[str]:
    """Return the cases in which this rank does not get what torch.cat makes."""
    rank, size, here = dist.get_rank(), dist.get_world_size(), device()
    wrong = []
    for dtype, dim in itertools.product(DTYPES, (0, 1, 2)):
        shards = [shard(r, dim, dtype) for r in range(size)]
        whole, mine = torch.cat(shards, dim), shards[rank].to(here)
        full = concat.all_gather_cat(mine, dim)
        root = concat.gather_cat(mine, 0, dim)
        chunk = concat.scatter_chunks(full if rank == 0 else None, 0, dim)
        told = concat.broadcast_tensor(mine if rank == 0 else None, 0)
        pairs = [(full, whole), (chunk, whole.tensor_split(size, dim)[rank])]
        pairs += [(told, shards[0])] + ([(root, whole)] if rank == 0 else [])
        if not all(torch.equal(got.cpu(), wanted) for got, wanted in pairs):
            wrong.append(f"{dtype}, dim {dim}")
    x = torch.ones(rank + 1, device=here, requires_grad=True)
    (concat.all_gather_cat(x) * (rank + 1)).sum().backward()
    if not torch.equal(x.grad.cpu(), torch.full((rank + 1,), size * (size + 1) / 2)):
        wrong.append("gradient")
    return wrong


def shard(rank: int, dim: int, dtype: torch.dtype) -> torch.Tensor:
    """Return the shard of a rank, longer along `dim` than that of the rank before."""
    shape = [2, 3, 4]
    shape[dim] = rank + 1
    count = shape[0] * shape[1] * shape[2]
    return ((torch.arange(count) + rank) % 7).reshape(shape).to(dtype)


def disagree() -> tuple[str, float]:
    """Reduce another shape on the last rank; return what is said, and a sum then."""
    longer = dist.get_rank() == dist.get_world_size() - 1
    said = ""
    try:
        dist.all_reduce(torch.ones(2 + longer, device=device()))
    except guard.CollectiveError as error:
        said = str(error)
    return said, total()


def total() -> float:
    """Return the number of ranks, as they find it together."""
    ones = torch.ones((), device=device())
    dist.all_reduce(ones)
    return ones.item()


def leave_out_last() -> float:
    """Find the number of ranks, without the last one."""
    return total() if dist.get_rank() < dist.get_world_size() - 1 else 0.0


def timed() -> list[tuple[float, float, float]]:
    """Return steps, volume and seconds of all_gather for shards of several sizes."""
    return [*points()]


def points() -> Iterator[tuple[float, float, float]]:
    """Yield a point for each size."""
    size, here = dist.get_world_size(), device()
    for count in SIZES:
        mine = torch.ones(count // 4, device=here)
        parts = [torch.empty_like(mine) for _ in range(size)]

        def gather(mine=mine, parts=parts) -> None:
            dist.all_gather(parts, mine)
            if here.type == "cuda":
                torch.cuda.synchronize()

        yield size - 1, (size - 1) * count, seconds(gather).floor
