"""One rank's bytes go from host to host, and on each of them through memory.

Gloo's broadcast is a tree of ranks, which knows nothing of hosts: the same bytes cross
a cable several times. Here one rank of each host gives them to its neighbours, in
memory that these map, see `hosts`. On the root's host this is the root; elsewhere it
is the one that takes the root's piece there. The givers stand in a line, in which each
hands on to the next: a cable carries the bytes at most once in and once out.

They go in steps, so that the end of the line need not wait for the last byte. All
steps come straight into the result: the next one crosses while the neighbours read.

Root 1, in units of gloo's broadcast (gloo, hosts inside one machine of 2 cores, medians
of the slowest rank; the link is that of `launch`):

    hosts x ranks  link     64 KiB  1 MiB  4 MiB  16 MiB
    2 x 2          none     1.0     0.6    0.9    0.6
    2 x 4          none     0.9     1.0    0.7    0.6
    4 x 2          none     0.9     0.9    0.9    0.8
    2 x 2          400mbit  0.5     0.4    0.3    0.3
    2 x 4          400mbit  0.8     0.2    0.2    0.2
    4 x 2          400mbit  0.8     0.5    0.3    0.2

What is shorter than `LEAST` takes the tree, in which fewer messages follow each other.
"""

from __future__ import annotations

import torch

from course_utils.concat.hosts import Crowd, crowd_of
from course_utils.concat.transfer import TAG, Wire, c10d

LEAST = 2**16  # bytes
STEP = 2**20  # bytes that cross, and lie in memory, at a time


def relay(flat: torch.Tensor, root: int, wire: Wire) -> None:
    """Send flat bytes of the root to all ranks of the group, into theirs."""
    crowd = crowd_of(wire) if flat.numel() >= LEAST else None
    if crowd is None:
        c10d.broadcast(flat, root, wire.group)
        return
    before, after = beside(crowd, root, wire.me)
    steps = flat.split(STEP)
    comes, goes = [], []
    if before is not None:
        comes = [c10d.irecv(step, before, wire.group, TAG) for step in steps]
    for i, step in enumerate(steps):
        if comes:
            comes[i].wait()
        if after is not None:
            goes.append(c10d.isend(step, after, wire.group, TAG))
        crowd.give(step, root, wire)
    for work in goes:
        work.wait()


def beside(crowd: Crowd, root: int, me: int) -> tuple[int | None, int | None]:
    """Return the givers before and after this rank in the line, None where it ends.

    The line begins at the root. A rank that gives nothing has none beside it.
    """
    givers = [found[root] for found in crowd.by_host]
    if me not in givers:
        return None, None
    place = givers.index(me)
    before, after = givers[place - 1], givers[(place + 1) % len(givers)]
    return None if me == root else before, None if after == root else after
