"""What the ranks of `test_shared.py` run."""

import os
import random
import time

import torch
from torch import distributed as dist

from course_utils import concat
from course_utils.concat import shared
from course_utils.measure import sent_bytes  # noqa: F401  for the tests

me, world_size = dist.get_rank(), dist.get_world_size()


def dock():
    """The dock of the world."""
    return shared.dock_of(dist.group.WORLD)


def shard_of(rank, count, call=0):
    """A shard that no other rank and no other call has."""
    return torch.arange(count).float() + 1000.0 * rank + 7 * call


def is_right(count, call=0):
    """Whether all ranks' shards of so many elements are joined."""
    full = concat.all_gather_cat(shard_of(me, count, call))
    parts = [shard_of(rank, count, call) for rank in range(world_size)]
    return torch.equal(full, torch.cat(parts))


def is_told(count, root, call=0):
    """Whether all ranks get the root's tensor of so many elements."""
    mine = shard_of(root, count, call) if me == root else None
    return torch.equal(concat.broadcast_tensor(mine, root), shard_of(root, count, call))


def calls_in_no_order(seed, calls):
    """Which of many calls went wrong, while ranks are late in turns."""
    late, same = random.Random(seed + me), random.Random(seed)
    wrong = []
    for call in range(calls):
        count, root = same.choice([2000, 5000, 70_000]), same.randrange(world_size)
        mine = shard_of(me, count, call)
        time.sleep(late.choice([0, 0, 0.001, 0.004]))
        kind = same.randrange(3)
        if kind == 0 and not is_right(count, call):
            wrong.append((call, "all_gather_cat"))
        elif kind == 1 and not is_told(count, root, call):
            wrong.append((call, "broadcast_tensor"))
        elif kind == 2:
            full = concat.gather_cat(mine, root)
            parts = [shard_of(rank, count, call) for rank in range(world_size)]
            if me == root and not torch.equal(full, torch.cat(parts)):
                wrong.append((call, "gather_cat"))
    return wrong


def memories():
    """The sizes of the shared memories that this process has open, or has mapped."""
    folder, found = "/proc/self/fd", []
    for fd in os.listdir(folder):
        try:
            if "memfd:course_utils.concat" in os.readlink(f"{folder}/{fd}"):
                found.append(os.stat(f"{folder}/{fd}").st_size)
        except OSError:
            pass
    with open("/proc/self/maps") as maps:
        count = sum("memfd:course_utils.concat" in line for line in maps)
    return found, count
