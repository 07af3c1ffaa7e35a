"""What the ranks of the trial do."""

from __future__ import annotations

import torch
import torch.distributed as dist


def gather() -> list[int]:
    """Return the numbers of all ranks, gathered."""
    parts = [torch.empty(1, dtype=torch.int64) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, torch.tensor([dist.get_rank()]))
    return torch.cat(parts).tolist()


def disagree() -> str:
    """Gather with another dtype on rank 0; return what this rank is told of it."""
    dtype = torch.float64 if dist.get_rank() == 0 else torch.int64
    shard = torch.zeros(2, dtype=dtype)
    parts = [torch.empty_like(shard) for _ in range(dist.get_world_size())]
    try:
        dist.all_gather(parts, shard)
    except Exception as error:
        return str(error)
    return ""
