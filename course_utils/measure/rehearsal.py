"""Rehearse a large world in one process: everything runs, and nothing is sent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

from course_utils.process_group import put_groups, take_groups


@contextmanager
def rehearse(world_size: int) -> Iterator[None]:
    """Make this process, for a ``with`` block, rank 0 of `world_size` ranks.

    Collectives return at once and leave buffers as they are; shapes, memory and the
    number of calls are those of the real world. With tensors on the device "meta"
    not even memory is needed. The process group is back afterwards.
    Raises ValueError for fewer than 1 rank.
    """
    if isinstance(world_size, bool) or not isinstance(world_size, int):
        raise TypeError(f"world_size: expected a whole number, got {world_size!r}")
    if world_size < 1:
        raise ValueError(f"world_size: expected 1 rank or more, got {world_size}")
    groups = take_groups()
    try:
        dist.init_process_group(
            "fake", store=FakeStore(), rank=0, world_size=world_size
        )
        yield
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
        put_groups(groups)
