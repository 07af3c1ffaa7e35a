"""What this rank is in, for the others: seen from a thread that hardly costs."""

from __future__ import annotations

import time
from types import FrameType, SimpleNamespace, TracebackType
from typing import Any

from course_utils.stuck import (
    Eyes,
    arguments,
    idle_call,
    seconds_of,
    sequences,
    waiting_call,
)
from course_utils.text import file_named, own_places
from course_utils.watched.recorder import Recorder

STILL = 0.002  # CPU seconds; a thread that used more has not waited in one call
IDLE = 10_000  # bytes a second, below which a rank that waits moves no data
MOST = 8  # places on the way that are told


class Lookout:
    """Look at the main thread from time to time.

    No frame is held from one look to the next: that would keep the tensors of a
    function alive after its end. So a call is the same one if stack, sequence numbers
    and CPU time of the thread are what they were.

    port: of the store at which the ranks meet; what goes there is no data.
    """

    def __init__(self) -> None:
        self.port = 0
        self._eyes, self._recorder = Eyes(), Recorder()
        self._place: list[tuple[int, int]] = []
        self._begun: dict[str, int] = {}
        self._state: dict[str, Any] | None = None  # of the wait that goes on
        self._since, self._cpu, self._moved = 0.0, 0.0, 0

    def look(self) -> dict[str, Any]:
        """Tell what the main thread does; see `course_utils.stuck.RankState`.

        waited: seconds in this call without moving data; begun: operations begun, by
        name of the group; group_name: of the group of the call.
        """
        on_gpu = self._recorder.look()
        if on_gpu is not None:
            begun = sequences()
            if on_gpu["number"]:
                begun[on_gpu["group_name"]] = on_gpu["number"]
            return {**on_gpu, "begun": begun}
        frames = self._eyes.frames()
        place = [(id(frame), frame.f_lasti) for frame in frames]
        cpu, begun = seconds_of(self._eyes.main), sequences()
        if (place, begun) != (self._place, self._begun) or cpu - self._cpu > STILL:
            self._place, self._begun = place, begun
            self._since, self._cpu, self._state = time.monotonic(), cpu, None
            own = own_places([frame.f_code.co_filename for frame in frames])
            return {"kind": "runs", "waited": 0, "begun": begun, **here(frames, own)}
        if self._state is None:
            self._state = self._described(frames)
        return {**self._state, "begun": begun, "waited": self._waited()}

    def _described(self, frames: list[FrameType]) -> dict[str, Any]:
        own = own_places([frame.f_code.co_filename for frame in frames])
        call, frame = self._eyes.waits_in(frames, own, idle=True)
        kind = "waits" if call else "runs"
        if kind == "waits":
            self._moved = self._eyes.moved(self.port)
        return {"kind": kind, "call": call, **arguments(frame), **here(frames, own)}

    def _waited(self) -> float:
        if not self._state or self._state["kind"] != "waits":
            return 0.0
        now, moved = time.monotonic(), self._eyes.moved(self.port)
        if moved - self._moved > IDLE * (now - self._since):
            self._since, self._moved = now, moved
        return now - self._since


def here(frames: list[FrameType], own: list[int]) -> dict[str, Any]:
    """Return the line that the innermost of the user's frames is at, and the way."""
    way = [(frames[i].f_code.co_filename, frames[i].f_lineno) for i in own[::-1]]
    return placed(way)


def placed(way: list[tuple[str, int]]) -> dict[str, Any]:
    """Return the parts of a state that say where; way: innermost first."""
    if not way:
        return {"line": 0, "file": "", "way": []}
    path, line = way[0]
    return {"line": line, "file": file_named(path), "way": way[:MOST]}


def of_error(tb: TracebackType | None) -> dict[str, Any]:
    """Return the state of a rank whose collective ended with an error.

    call: "" where it was in none.
    """
    frames, lines = [], []
    while tb is not None:
        frames.append(as_it_was(tb))
        lines.append(tb.tb_lineno)
        tb = tb.tb_next
    names = [frame.f_code.co_filename for frame in frames]
    own = own_places(names)
    inner = frames[own[-1]] if own else None
    library = frames[own[-1] + 1 :] if own else frames
    call, frame = waiting_call(library, inner)
    if not call and frames:
        call, frame = idle_call(frames[-1], library)
    way = [(names[i], lines[i]) for i in own[::-1]]
    return {"call": call, **arguments(frame), **placed(way)}


def as_it_was(tb: TracebackType) -> SimpleNamespace:
    """Return what is asked of a frame, at the instruction that raised the error."""
    frame = tb.tb_frame
    return SimpleNamespace(
        f_code=frame.f_code,
        f_lasti=tb.tb_lasti,
        f_locals=frame.f_locals,
        f_globals=frame.f_globals,
    )
