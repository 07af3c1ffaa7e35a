"""What is this rank doing? Told by a thread while the main thread works.

A rank that waits inside gloo answers no request and runs no signal handler,
but the other threads of its process go on. One of them looks at the stack of
the main thread while a cell runs, and sends what it sees to the client.
"""

from __future__ import annotations

import ast
import linecache
import sys
import threading
import time
from dataclasses import dataclass
from types import FrameType

from IPython import get_ipython

FIRST = 0.4  # seconds of a cell before the first look: most cells are faster
PERIOD = 0.2  # seconds between looks
COLLECTIVES = "torch/distributed/distributed_c10d.py"
CONCAT = "course_utils/concat.py"
PEERS = ("src", "dst", "group_src", "group_dst")


@dataclass(frozen=True)
class Activity:
    """What the main thread is in.

    call: the call that waits for other ranks, as in "broadcast(src=0)"; empty
        while the rank computes.
    line: the line of the cell, from 1; 0 where no line of the cell runs.
    text: the source of that line.
    seconds: for how long.
    """

    call: str
    line: int
    text: str
    seconds: float

    def __str__(self) -> str:
        where = f" at line {self.line}" if self.line else ""
        doing = f"waits in {self.call}" if self.call else "computes"
        return f"{doing}{where} for {self.seconds:.1f} s"


class Watcher:
    """Look at the main thread while a cell runs, and publish what it is in."""

    def __init__(self) -> None:
        self._running = threading.Event()
        self._cell = 0
        self._main = threading.main_thread().ident

    def start(self) -> None:
        """Begin to watch the cells of this engine."""
        events = get_ipython().events
        events.register("pre_execute", self._cell_starts)
        events.register("post_execute", self._running.clear)
        threading.Thread(target=self._watch, name="watch", daemon=True).start()

    def _cell_starts(self) -> None:
        self._cell += 1
        self._running.set()

    def _watch(self) -> None:
        while self._running.wait():
            cell, since, last = self._cell, time.monotonic(), None
            time.sleep(FIRST)
            while self._running.is_set() and cell == self._cell:
                frames = stack(sys._current_frames().get(self._main))
                seen = look(frames)
                if last is None or seen[0] != last:
                    since = time.monotonic() if last else since
                    last = seen[0]
                del frames
                publish(Activity(*seen[1], time.monotonic() - since))
                time.sleep(PERIOD)


def publish(activity: Activity) -> None:
    """Send an activity to the client, as data of the running cell."""
    get_ipython().data_pub.publish_data({"activity": activity})


def stack(frame: FrameType | None) -> list[FrameType]:
    """Return the frames of a stack, outermost first."""
    frames = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return frames[::-1]


def look(frames: list[FrameType]) -> tuple[object, tuple[str, int, str]]:
    """Return a token of this moment, and call, line and text of the activity.

    Two looks with equal tokens saw the same call, still going on.
    """
    cell = [i for i, f in enumerate(frames) if is_cell(f.f_code.co_filename)]
    if not cell:
        return None, ("", 0, "")
    outer, inner = frames[cell[0]], frames[cell[-1]]
    text = linecache.getline(outer.f_code.co_filename, outer.f_lineno).strip()
    call, inside = waiting_call(frames[cell[-1] + 1 :], inner)
    token = (id(inner), inner.f_lasti, id(inside), call)
    return token, (call, outer.f_lineno, text)


def is_cell(filename: str) -> bool:
    """Tell whether code comes from a cell rather than from a file."""
    return "ipykernel_" in filename or filename.startswith("<ipython-input")


def waiting_call(
    library: list[FrameType], inner: FrameType
) -> tuple[str, FrameType | None]:
    """Name the call that waits for other ranks, if there is one.

    library: the frames inside the learner's innermost frame `inner`.
    """
    for frame in library:
        path = frame.f_code.co_filename.replace("\\", "/")
        if path.endswith(CONCAT) or path.endswith(COLLECTIVES):
            return f"{frame.f_code.co_name}({peers(frame)})", frame
    if not library and waits_for_work(inner):
        return "wait()", None
    return "", None


def peers(frame: FrameType) -> str:
    """Return the arguments of a collective that name a rank."""
    given = {name: frame.f_locals.get(name) for name in PEERS}
    return ", ".join(f"{k}={v}" for k, v in given.items() if isinstance(v, int))


def waits_for_work(frame: FrameType) -> bool:
    """Tell whether the frame is in ``work.wait()`` of an async collective."""
    called = current_call(frame)
    if not isinstance(called, ast.Attribute) or called.attr != "wait":
        return False
    owner = called.value
    if not isinstance(owner, ast.Name):
        return True  # works[0].wait() and the like
    name = owner.id
    value = frame.f_locals.get(name, frame.f_globals.get(name))
    return type(value).__module__.startswith("torch.")


def current_call(frame: FrameType) -> ast.expr | None:
    """Return the expression that the frame is calling at this moment."""
    positions = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    first, last, start, end = positions
    if None in positions:
        return None
    lines = [
        linecache.getline(frame.f_code.co_filename, n) for n in range(first, last + 1)
    ]
    lines[-1] = lines[-1].encode()[:end].decode(errors="ignore")
    lines[0] = lines[0].encode()[start:].decode(errors="ignore")
    try:
        node = ast.parse("".join(lines).strip(), mode="eval").body
    except SyntaxError:
        return None
    return node.func if isinstance(node, ast.Call) else None
