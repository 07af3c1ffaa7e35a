"""What the ranks of `test_mailbox.py` run."""

import os
import random
import time

import torch
from torch import distributed as dist

from course_utils.same_host import mailbox, mailbox_of, opening  # noqa: F401

me, world_size = dist.get_rank(), dist.get_world_size()


def told(row):
    """Exchange a row by a collective."""
    rows = [None] * world_size
    dist.all_gather_object(rows, row)
    return rows


def box(group=None, user="tests"):
    """The mailbox of a group for these tests."""
    return mailbox_of(group or dist.group.WORLD, user, told)


def spin_on(cores):
    """How long a mailbox looks again on a machine of so many cores, in seconds."""
    known, os.sched_getaffinity = os.sched_getaffinity, lambda _: range(cores)
    try:
        return box(user=f"on {cores} cores").spin
    finally:
        os.sched_getaffinity = known


def letter(rank, call, size):
    """A message that no other rank and no other call has."""
    return random.Random(f"{rank} {call}").randbytes(size)


def swap(call, size=40, user="tests"):
    """Swap one message with every rank; tell whether those that came are right."""
    found = [bytearray(size) for _ in range(world_size)]
    views = [memoryview(one) for one in found]
    box(user=user).swap(letter(me, call, size), views, dist.group.WORLD)
    return all(found[r] == letter(r, call, size) for r in range(world_size) if r != me)


def wrong_calls(calls, lateness, seed=0):
    """Which of many calls went wrong, while ranks are late by so many seconds."""
    late, same = random.Random(seed + me), random.Random(seed)
    wrong = []
    for call in range(calls):
        size = same.choice([1, 40, 5000, mailbox.ROOM])
        time.sleep(late.choice(lateness))
        if not swap(call, size):
            wrong.append(call)
    return wrong


def collectives_between(calls):
    """Which of many calls went wrong, with a collective after each of them."""
    late, wrong, ones = random.Random(me), [], torch.ones(1)
    for call in range(calls):
        time.sleep(late.choice([0, 0, 0, 2 * mailbox.DOZE]))
        total = ones.clone()
        right = swap(call)
        dist.all_reduce(total)
        if not right or total.item() != world_size:
            wrong.append(call)
    return wrong


def slow_reader(call):
    """As `swap`, by a rank that reads late what has come."""
    mine = box()
    until = mine._until
    mine._until = lambda *given: (until(*given), time.sleep(0.3))
    try:
        return swap(call)
    finally:
        del mine._until


def interrupted(call):
    """Whether a swap was interrupted on this rank, which comes first."""

    def interrupt(*_):
        raise KeyboardInterrupt

    wait, mailbox.futex.wait = mailbox.futex.wait, interrupt
    try:
        swap(call)
    except KeyboardInterrupt:
        return True
    finally:
        mailbox.futex.wait = wait
    return False


def awake_by_itself(place):
    """Leave a mailbox as one that saw a message without being woken for it."""
    mine, group = box(), dist.group.WORLD
    mine.bells[place] = group.recv([mine.ears[place]], place, mine.tag)
