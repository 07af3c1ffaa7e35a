"""What is the main thread of this process in? Seen from another thread.

A rank that waits inside gloo runs no signal handler and no cell, but the other
threads of its process go on. They can look at the stack of the main thread.
"""

from __future__ import annotations

import socket
import sys
import threading
import time
from types import FrameType
from typing import Any

from course_utils.measure import sockets, traffic
from course_utils.stuck.stacks import idle_call, joins, seconds_of, stack, waiting_call

PEERS = ("src", "dst", "group_src", "group_dst")
IDLE = 0.1  # CPU seconds a second


class Eyes:
    """Name what the main thread waits in, and count what its connections move."""

    def __init__(self) -> None:
        self.main = threading.main_thread().ident
        self.before = sockets()  # not the process group's
        self._seen = (time.monotonic(), seconds_of(self.main))  # at the last look

    def frames(self) -> list[FrameType]:
        """Return the stack of the main thread, outermost first."""
        return stack(sys._current_frames().get(self.main))

    def waits_in(
        self, frames: list[FrameType], own: list[int], idle: bool
    ) -> tuple[str, FrameType | None]:
        """Name the call that waits for other ranks, and its frame; "" if none.

        own: which of the frames are the user's; idle: it hardly computes.
        """
        inner = frames[own[-1]] if own else None
        library = frames[own[-1] + 1 :] if own else frames
        call, frame = waiting_call(library, inner)
        if not call and library and joins(library[-1]):
            call, frame = self._helper_call()
        if not call and frames and idle:
            call, frame = idle_call(frames[-1], library)
        return call, frame

    def _helper_call(self) -> tuple[str, FrameType | None]:
        """Name the call in which a thread waits that the main thread waits for."""
        for thread, frame in sys._current_frames().items():
            call = waiting_call(stack(frame), None) if thread != self.main else ("",)
            if call[0]:
                return call
        return "", None

    def idle(self) -> bool:
        """Tell whether the main thread has hardly computed since the last look."""
        before, self._seen = self._seen, (time.monotonic(), seconds_of(self.main))
        spent, passed = self._seen[1] - before[1], self._seen[0] - before[0]
        return spent < IDLE * passed

    def moved(self, except_port: int = 0) -> int:
        """Return the bytes that connections have moved, both ways.

        except_port: of a server, connections to which are not counted.
        """
        if not hasattr(socket, "TCP_INFO"):  # CPU time stands in, 1 s for 1 MB
            return int(1e6 * time.process_time())
        seen = (traffic(fd, except_port) for fd in sockets() - self.before)
        return sum(map(sum, seen))


def arguments(frame: FrameType | None) -> dict[str, Any]:
    """Return the ranks that a collective names, and its group: name and ranks."""
    if frame is None:
        return {"peers": {}, "group": None, "group_name": ""}
    given = frame.f_locals.get("given", frame.f_locals)  # "given" in the guard
    peers = {name: given.get(name) for name in PEERS if type(given.get(name)) is int}
    group = frame.f_locals.get("group")
    return {"peers": peers, "group": members(group), "group_name": group_name(group)}


def group_name(group: object) -> str:
    """Return the name of a process group; of the default one for None."""
    from torch import distributed as dist

    if not isinstance(group, dist.ProcessGroup):
        group = dist.group.WORLD
    return group.group_name if group is not None else ""


def sequences() -> dict[str, int]:
    """Return how many operations each group of this process has begun.

    What is swapped in shared memory counts, too.
    """
    dist = sys.modules.get("torch.distributed")
    if dist is None or not dist.is_initialized():
        return {}
    same_host = sys.modules.get("course_utils.same_host")
    more = same_host.swapped if same_host else lambda group: 0
    try:
        return {
            group.group_name: group._get_sequence_number_for_group() + more(group)
            for group in list(dist.distributed_c10d._world.pg_map)
        }
    except RuntimeError:  # a backend that does not count
        return {}


def members(group: object) -> list[int] | None:
    """Return the ranks of a sub-group; None for the group of all ranks."""
    from torch import distributed as dist

    if not isinstance(group, dist.ProcessGroup) or group is dist.group.WORLD:
        return None
    try:
        return dist.get_process_group_ranks(group)
    except (KeyError, ValueError):
        return None
