"""Exchange the records of all ranks, in shared memory where they are on one host."""

from __future__ import annotations

from array import array

import torch
from torch import distributed as dist

from course_utils.same_host import Mailbox, mailbox_of

# A group's method has another name before torch 2.13.
KNOWN = hasattr(dist.ProcessGroup, "all_gather_single")
ALL_GATHER = "all_gather_single" if KNOWN else "_allgather_base"


def box_of(group: dist.ProcessGroup) -> Mailbox | None:
    """Return where the ranks of a group meet; None if they do in a collective."""

    def told(row: list[int]) -> list[list[int]]:
        rows = gathered(array("q", row).tobytes(), group)
        return [array("q", one).tolist() for one in rows]

    return mailbox_of(group, "guard", told)


def exchanged(
    mine: bytes, group: dist.ProcessGroup, box: Mailbox | None
) -> list[bytes]:
    """Return the records of all ranks, in the order of the group; none if all are
    alike.

    box: that of the group.
    """
    if box is not None:
        return box.unlike(mine, group)
    rows = gathered(mine, group)
    return [] if rows.count(mine) == len(rows) else rows


def gathered(mine: bytes, group: dist.ProcessGroup) -> list[bytes]:
    """Return the records of all ranks, by a collective."""
    device = "cuda" if "nccl" in dist.get_backend(group) else "cpu"
    row = torch.tensor(array("q", mine), device=device)
    flat = row.new_empty(group.size() * len(row))
    getattr(group, ALL_GATHER)(flat, row).wait()
    rows = flat.view(group.size(), -1).tolist()
    return [array("q", one).tobytes() for one in rows]
