"""Open the mailboxes of a group, once.

All ranks of the group do so at the same time: each tells the others where its mailbox
lies, and whether it reached those of its host.
"""

from __future__ import annotations

import os
import platform
import sys
import weakref
import zlib
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import distributed as dist

from course_utils.same_host.mailbox import ROOM, Mailbox, head
from course_utils.same_host.memory import Memory, reached, say, this_host, wanted

ORDERED = platform.machine() in ("x86_64", "AMD64") and sys.maxsize > 2**32
CPU = torch.device("cpu")
WHAT = "mailbox"


class Opened(NamedTuple):
    """What a group has of mailboxes.

    hosts: the ranks of the group, host by host; none where a rank does without. box:
    that of this rank and its neighbours.
    """

    hosts: list[list[int]] = []
    box: Mailbox | None = None

    @property
    def for_all(self) -> Mailbox | None:
        """The mailbox in which all ranks of the group meet; None if they cannot."""
        return self.box if len(self.hosts) == 1 else None


_opened: weakref.WeakKeyDictionary[dist.ProcessGroup, dict[str, Opened]] = (
    weakref.WeakKeyDictionary()
)


def mailboxes_of(
    group: dist.ProcessGroup, user: str, told: Callable[[list[int]], list[list[int]]]
) -> Opened:
    """Return what a group has of mailboxes for one user, by name.

    Every rank of the group calls it. told: exchanges a row of whole numbers by other
    ways, and returns those of all ranks; used in the first call of a group only.
    """
    users = _opened.get(group)
    if users is None:
        users = _opened[group] = {}
    if user not in users:
        users[user] = Opened()  # what tells uses it, too
        if dist.get_backend(group) == "gloo" and not is_counted(group, CPU):
            users[user] = opened(group.rank(), group.size(), told, tag_of(user))
    return users[user]


def mailbox_of(
    group: dist.ProcessGroup, user: str, told: Callable[[list[int]], list[list[int]]]
) -> Mailbox | None:
    """Return the mailbox in which all ranks of a group meet; None if they cannot.

    For the arguments see `mailboxes_of`.
    """
    return mailboxes_of(group, user, told).for_all


def tag_of(user: str) -> int:
    """Return the tag of the messages that wake, in the mailboxes of one user."""
    return zlib.crc32(f"course_utils.{WHAT}.{user}".encode()) >> 1


def opened(
    me: int, size: int, told: Callable[[list[int]], list[list[int]]], tag: int
) -> Opened:
    """Make the mailbox of this rank, and reach those of its host."""
    own, row = None, [0] * 4
    try:
        if wanted() and ORDERED and size > 1:
            own = Memory(WHAT, head(size) + 2 * ROOM)
            row = [this_host(), os.getpid(), own.fd, own.serial]
    except Exception as error:  # whatever it is, sockets do
        say(f"this rank cannot have it: {error}", WHAT)
    rows = told(row)
    hosts: dict[int, list[int]] = {}
    for rank, (host, *_) in enumerate(rows):
        hosts.setdefault(host, []).append(rank)
    if 0 in hosts:
        say("a rank does without it", WHAT)
        return Opened()
    here, maps = hosts[row[0]], []
    try:
        maps = [memoryview(reached(*rows[rank][1:])) for rank in here]
    except Exception as error:  # or the others would wait for this rank
        say(f"this rank cannot reach it: {error}", WHAT)
    if not all(row[0] for row in told([int(bool(maps))])):
        return Opened()
    if len(hosts) > 1:
        say("the ranks are on several hosts", WHAT)
    # `own` is closed now, and stays mapped
    return Opened([*hosts.values()], Mailbox(maps, here.index(me), here, tag))


def is_counted(group: dist.ProcessGroup, device: torch.device) -> bool:
    """Tell whether torch compares how many messages the ranks of a group have sent."""
    sender = group._get_backend(device)
    return type(sender).__name__ == "_ProcessGroupWrapper"


def swapped(group: dist.ProcessGroup) -> int:
    """Return how many messages this rank has swapped with all others of a group."""
    found = [opened.for_all for opened in (_opened.get(group) or {}).values()]
    return sum(box.made for box in found if box is not None)
