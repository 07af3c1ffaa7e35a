"""What is this rank doing? Answered by a thread while the main thread works.

The thread of an engine that serves control requests goes on while the main thread
waits. It can look at the stack of that (see `looking`), and it can free it: the
sockets of the process group are shut down, and the collective that waits on them
fails at once; a wait that does not notice is given up. One of MPI's is polled, and
given up.
"""

from __future__ import annotations

import linecache
from types import FrameType
from typing import Any

from IPython import get_ipython

from course_utils.measure import sockets
from course_utils.stuck.connections import shut_down
from course_utils.stuck.looking import Eyes, arguments, sequences
from course_utils.text import file_named, own_places

REQUEST = "rank_request"  # control message that this module answers


class Watch:
    """Answer the client's questions about this rank, from the control thread."""

    def __init__(self) -> None:
        self._eyes = Eyes()
        self._held: list[FrameType] = []  # keeps the ids in the token unique
        self._at_start: dict[str, int] = {}  # sequence numbers when the cell began

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
        content = {"status": "ok", **do(*request["content"]["with"])}
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
        frames = self._eyes.frames()
        seen: dict[str, Any] = {"call": "", "line": 0, "text": ""}
        seen.update(outer=0, file="")
        seen.update(arguments(None))
        cell = own_places([frame.f_code.co_filename for frame in frames])
        held = []
        if cell:
            name = frames[cell[0]].f_code.co_filename  # not of cells run before
            here = [frames[i] for i in cell if frames[i].f_code.co_filename == name][-1]
            line = linecache.getline(name, here.f_lineno)
            seen.update(line=here.f_lineno, text=line.strip(), file=file_named(name))
            seen.update(outer=frames[cell[0]].f_lineno)
            held = [frames[cell[-1]]]
        call, frame = self._eyes.waits_in(frames, cell, self._eyes.idle())
        if call:
            seen.update(call=call, **arguments(frame))
            held.append(frame)
        self._held[:] = [f for f in held if f is not None]
        token = [(id(f), f.f_lasti) for f in self._held]
        begun = {n: k - self._at_start.get(n, 0) for n, k in sequences().items()}
        seen.update(token=repr(token), begun=begun, moved=self._eyes.moved())
        return seen

    def free(self, order: int) -> dict[str, Any]:
        """Let the calls of the process group fail, by which it is of no use any more.

        order: its number; nothing happens where the group has been left since.
        What waits for MPI is given up; else the group's connections are shut down.
        """
        # torch, not for the notebook
        from course_utils import mpi_backend, process_group

        with process_group.still_there(order) as there:
            if there and not mpi_backend.give_up():
                for fd in sockets() - self._eyes.before:
                    shut_down(fd)
                process_group.give_up()
        return {}
