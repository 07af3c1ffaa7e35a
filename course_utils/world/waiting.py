"""What a start waits for, shown while it takes long: the state of a queue."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from IPython import get_ipython
from IPython.display import display

from course_utils.world.output import quiet

if TYPE_CHECKING:
    from course_utils.engines import Forked, HandedOver

SHOWN_AFTER = 2.0  # seconds


@contextmanager
def waiting(cluster: Forked | HandedOver) -> Iterator[None]:
    """Show what a cluster tells of its start, and take it away at the end."""
    line = Line()
    cluster.tell = line
    try:
        yield
    finally:
        line.clear()


class Line:
    """A line that follows what is told; in a script, each new text on stderr."""

    def __init__(self) -> None:
        self._started, self._text, self._handle = time.monotonic(), "", None

    def __call__(self, text: str) -> None:
        """Show a text, and how long the start has taken."""
        seconds = time.monotonic() - self._started
        new, self._text = text != self._text, text
        if quiet() or seconds < SHOWN_AFTER:
            return
        if get_ipython() is None:
            if new:
                print(text, file=sys.stderr, flush=True)
            return
        data = {"text/plain": f"{text}, {seconds:.0f} s"}
        if self._handle is None:
            self._handle = display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)

    def clear(self) -> None:
        """Take the line away."""
        if self._handle is not None:
            self._handle.update({"text/plain": ""}, raw=True)
