"""What is this rank doing? Answered by a thread while the main thread works.

A rank that waits inside gloo runs no signal handler and no cell, but the thread
of its engine that serves control requests goes on. It can look at the stack of
the main thread, and it can free it: the sockets of the process group are shut
down, and the collective that waits on them fails at once.
"""

from __future__ import annotations

import linecache
import socket
import sys
import threading
import time
from types import FrameType
from typing import Any

from IPython import get_ipython

from course_utils.stuck.connections import shut_down, sockets, traffic
from course_utils.stuck.stacks import idle_call, joins, seconds_of, stack, waiting_call
from course_utils.text import file_named, own_places

REQUEST = "rank_request"  # control message that this module answers
PEERS = ("src", "dst", "group_src", "group_dst")
IDLE = 0.1  # CPU seconds a second


class Watch:
    """Answer the client's questions about this rank, from the control thread."""

    def __init__(self) -> None:
        self._main = threading.main_thread().ident
        self._held: list[FrameType] = []  # keeps the ids in the token unique
        self._before = sockets()  # not the process group's: the engine's own
        self._at_start: dict[str, int] = {}  # sequence numbers when the cell began
        self._seen = (time.monotonic(), seconds_of(self._main))  # at the last look

    def install(self) -> None:
        """Begin to answer the control requests of this engine."""
        kernel = get_ipython().kernel
        kernel.control_handlers[REQUEST] = self._answer
        events = get_ipython().events
        events.register("pre_execute", self._cell_starts)
        events.register("post_execute", self._held.clear)

    def _cell_starts(self) -> None:
        self._at_start = sequences()

    def _answer(self, stream, ident, request) -> None:
        do = {"look": self.look, "free": self.free}[request["content"]["do"]]
        content = {"status": "ok", **do()}
        kernel = get_ipython().kernel
        kernel.session.send(
            stream, "rank_reply", content=content, parent=request, ident=ident
        )

    def look(self) -> dict[str, Any]:
        """Tell what the main thread is in.

        call: the call that waits for other ranks, as in "broadcast"; "" if none.
        peers: its arguments that name a rank; group: ranks of its sub-group, None
            for all; group_name: of its group.
        line, text: the line of the cell, that of `%%px` being 1, and its source; 0
            and "" if none runs; outer: the line from which that was called.
        file: the user's file, where no cell runs but a function of a script.
        token: equal in two looks that saw the same call, still going on.
        moved: bytes that went over the process group's connections, both ways.
        begun: operations begun in this cell, by name of the group.
        """
        frames = stack(sys._current_frames().get(self._main))
        seen: dict[str, Any] = {"call": "", "line": 0, "text": ""}
        seen.update(outer=0, file="")
        seen.update(arguments(None))
        cell = own_places([frame.f_code.co_filename for frame in frames])
        held = []
        if cell:
            inner = frames[cell[-1]]
            name = frames[cell[0]].f_code.co_filename  # not of cells run before
            here = [frames[i] for i in cell if frames[i].f_code.co_filename == name][-1]
            line = linecache.getline(name, here.f_lineno)
            seen.update(line=here.f_lineno, text=line.strip(), file=file_named(name))
            seen.update(outer=frames[cell[0]].f_lineno)
            held = [inner]
        else:
            inner = None
        library = frames[cell[-1] + 1 :] if cell else frames
        call, frame = waiting_call(library, inner)
        if not call and library and joins(library[-1]):
            call, frame = self._helper_call()
        idle = self._idle()
        if not call and frames and idle:
            call, frame = idle_call(frames[-1], library)
        if call:
            seen.update(call=call, **arguments(frame))
            held.append(frame)
        self._held[:] = [f for f in held if f is not None]
        token = [(id(f), f.f_lasti) for f in self._held]
        begun = {n: k - self._at_start.get(n, 0) for n, k in sequences().items()}
        seen.update(token=repr(token), moved=self._moved(), begun=begun)
        return seen

    def _helper_call(self) -> tuple[str, FrameType | None]:
        """Name the call in which a thread waits that the main thread waits for."""
        for thread, frame in sys._current_frames().items():
            call = waiting_call(stack(frame), None) if thread != self._main else ("",)
            if call[0]:
                return call
        return "", None

    def _idle(self) -> bool:
        """Tell whether the main thread has hardly computed since the last look."""
        before, self._seen = self._seen, (time.monotonic(), seconds_of(self._main))
        spent, passed = self._seen[1] - before[1], self._seen[0] - before[0]
        return spent < IDLE * passed

    def _moved(self) -> int:
        if not hasattr(socket, "TCP_INFO"):  # CPU time stands in, 1 s for 1 MB
            return int(1e6 * time.process_time())
        return sum(sum(traffic(fd)) for fd in sockets() - self._before)

    def free(self) -> dict[str, Any]:
        """Shut down the process group's connections, so that its calls fail."""
        for fd in sockets() - self._before:
            shut_down(fd)
        return {}


def arguments(frame: FrameType | None) -> dict[str, Any]:
    """Return the ranks that a collective names, and its group: name and ranks."""
    if frame is None:
        return {"peers": {}, "group": None, "group_name": ""}
    given = frame.f_locals.get("given", frame.f_locals)  # "given" in the guard
    peers = {name: given.get(name) for name in PEERS if type(given.get(name)) is int}
    group = given.get("group")
    return {"peers": peers, "group": members(group), "group_name": group_name(group)}


def group_name(group: object) -> str:
    """Return the name of a process group; of the default one for None."""
    from torch import distributed as dist

    if not isinstance(group, dist.ProcessGroup):
        group = dist.group.WORLD
    return group.group_name if group is not None else ""


def sequences() -> dict[str, int]:
    """Return how many operations each group of this process has begun."""
    dist = sys.modules.get("torch.distributed")
    if dist is None or not dist.is_initialized():
        return {}
    try:
        return {
            group.group_name: group._get_sequence_number_for_group()
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
