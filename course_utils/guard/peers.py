"""Refuse messages between two ranks that cannot be sent, before torch is called.

Nothing is exchanged for these, so only what one rank can tell by itself is refused.
Otherwise gloo ends the process at a rank that does not exist, or one rank fails
while the other waits.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import distributed as dist

from course_utils.guard import arguments as of
from course_utils.guard.comparison import CollectiveError
from course_utils.guard.layout import packed
from course_utils.guard.problems import peer_problem
from course_utils.guard.words import kind

ITSELF = "named itself, but no message goes from a rank to itself; use clone()"
SEND = "passed a tensor that is not contiguous, which cannot be sent; "
SEND += "pass .contiguous()"
RECEIVE = "passed a tensor to receive into that is not contiguous, which cannot be; "
RECEIVE += "receive into a new one: column = torch.empty(3), then m[:, 1] = column"


def check_peer(name: str, given: dict[str, Any], peer: str, group: Any) -> None:
    """Raise CollectiveError if this rank cannot send or receive as it says.

    name: "send", "irecv", …; peer: the parameter that names the other rank.
    """
    group = group or dist.group.WORLD
    if not isinstance(group, dist.ProcessGroup) or dist.get_rank(group) < 0:
        return
    wrong = message_problem(name, given, peer, group)
    if wrong:
        raise CollectiveError(f"{name} did not run: this rank {wrong}")


def message_problem(
    name: str, given: dict[str, Any], peer: str, group: dist.ProcessGroup
) -> str:
    """Say why a message cannot be sent or received; "" for nothing."""
    ranks = dist.get_process_group_ranks(group)
    if given.get(peer) is not None or given.get(f"group_{peer}") is not None:
        found = peer_problem(peer, given, ranks)
        if found:
            return found
        if dist.get_backend(group) == "gloo" and other(given, peer, ranks) is None:
            return ITSELF
    if "tensor" not in given:
        return ""
    if not isinstance(given["tensor"], torch.Tensor):
        return f"passed {kind(given['tensor'])} as tensor, where a tensor belongs"
    if dist.get_backend(group) == "gloo" and not packed(given["tensor"]):
        return SEND if "send" in name else RECEIVE
    return ""


def other(given: dict[str, Any], peer: str, ranks: list[int]) -> int | None:
    """Return the global rank of the other one; None if it is this rank itself."""
    named = given.get(peer)
    named = ranks[of.whole_number(given[f"group_{peer}"])] if named is None else named
    return None if of.whole_number(named) == dist.get_rank() else named
