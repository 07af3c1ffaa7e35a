"""Write a report on this rank, and end the process if that was asked for."""

from __future__ import annotations

import faulthandler
import os
import socket
import sys
import threading
import time
from collections.abc import Callable

from course_utils.watched.options import Options

TOGETHER = 2.0  # seconds in which all ranks have to have written the report
LOOK = 0.05  # seconds between looks whether they have
FLUSH = 0.5  # seconds for what stands in buffers
STDERR = 2


class Leaving:
    """The end of this process, or not, as the options say.

    by_itself: whether the main thread is about to end, and may have things to do.
    """

    def __init__(self, options: Options) -> None:
        self._choice = options.on_stuck
        self.by_itself = False

    def say(self, text: str) -> None:
        """Write to standard error, whatever has become of `sys.stderr`."""
        os.write(STDERR, f"\n{text}\n".encode())

    def write(self, text: str) -> None:
        """Write a report; to debug, with the stacks of this process."""
        self.say(text)
        if self._choice == "debug":
            here = f"process {os.getpid()} on {socket.gethostname()}"
            self.say(f"{here} goes on; its threads:")
            faulthandler.dump_traceback(STDERR, all_threads=True)

    def go(self, others_wrote: Callable[[], bool], last: bool = False) -> None:
        """End this process with exit code 1, once all ranks have written the report.

        A launcher that sees the first process end would end the others before. The
        main thread only waits for them: it is about to end.
        others_wrote: tells whether they have; last: whether the others need this
            process to learn it.
        """
        if self._choice != "end" and not self.by_itself:
            return
        limit = time.monotonic() + TOGETHER
        while time.monotonic() < limit and not others_wrote():
            time.sleep(LOOK)
        if last:
            time.sleep(FLUSH)
        if threading.current_thread() is threading.main_thread():
            return
        if self.by_itself:
            time.sleep(TOGETHER)
        flush()
        os._exit(1)


def flush() -> None:
    """Write what stands in the buffers of print, unless somebody holds them."""
    streams = [s for s in (sys.stdout, sys.stderr) if s is not None]
    writer = threading.Thread(target=lambda: [s.flush() for s in streams], daemon=True)
    writer.start()
    writer.join(FLUSH)
