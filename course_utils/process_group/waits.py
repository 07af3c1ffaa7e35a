"""Waits for gloo that can be ended from outside, as gloo's own cannot.

When a connection breaks, gloo fails what has not begun to cross it. A message that has
crossed in part is waited for until the group's time-out, and so is the collective that
it belongs to. Therefore the main thread waits in steps, and between two of them it
looks whether the group was given up.

Two kinds of waits stay as they are: for a message between two ranks, since gloo breaks
every connection of a group when such a wait reaches a limit, and those that torch
makes in C++, as for the gradients of DistributedDataParallel.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from torch import distributed as dist

STEP = timedelta(seconds=0.2)
REACHED = "Operation timed out!"  # what torch says at the end of a step
GIVEN_UP = "Connection closed by peer: the process group was given up"
MESSAGES = (12, 13, 14)  # send, recv, recv from any rank: c10d's OpType

# As a function of its own a profiler sees it, as it sees torch's.
_wait = getattr(dist.Work.wait, "__func__", dist.Work.wait)
_left: list[dist.Work] = []  # that nobody waits for any more, and may still go on
_given_up = False  # whether all that was begun is
_over = 0  # the last order to give groups up that there are no groups for any more
_changing = threading.Lock()


def wait_in_steps() -> None:
    """Let every wait for a collective of gloo's be one that `give_up` ends."""
    dist.Work.wait = wait


def wait(work: dist.Work, timeout: timedelta | None = None) -> bool:
    """Wait for work to end, as `torch.distributed.Work.wait` does."""
    if timeout is not None:
        return _wait(work, timeout)
    if work._get_op_type() in MESSAGES:
        return _wait(work)
    try:
        while not _given_up:
            try:
                return _wait(work, STEP)
            except RuntimeError as error:
                if REACHED not in str(error):
                    raise
        if work.is_completed():
            return _wait(work)
        raise RuntimeError(GIVEN_UP)
    finally:
        if not work.is_completed():  # given up, or interrupted
            _left.append(work)


def give_up() -> None:
    """Let whoever waits for gloo fail soon, as do all who wait from now on.

    Any thread may call this. `begin_anew` ends it.
    """
    global _given_up
    _given_up = True


@contextmanager
def still_there(order: int) -> Iterator[bool]:
    """Tell whether the groups are there that an order to give them up is for.

    They stay so in the ``with`` block. A rank whose threads could not run may hear of
    the order when its groups are new ones.
    """
    with _changing:
        yield order > _over


def leave(order: int) -> None:
    """Take no order up to number `order` any more: it was for groups that are left."""
    global _over
    with _changing:
        _over = max(_over, order)


def begin_anew(groups: list[dist.ProcessGroup]) -> None:
    """Let waits be waits again, when `groups` are left.

    To delete a group, gloo waits for its work. So one whose work may go on for minutes
    is never deleted.
    """
    global _given_up
    _given_up = False
    if not all(work.is_completed() for work in _left):
        for group in groups:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(group))
    _left.clear()
