"""The nanny of an engine on another host, forked from the engine.

It relays signals to its engine and tells the controller when the engine has ended. As
a new interpreter, as ipyparallel has it, it costs 27 MB and half a second; as a fork it
shares the engine's pages. Engines on the controller's own machine do without (see
`without_nanny`).
"""

from __future__ import annotations

import logging
import os
from typing import IO, Any


class ForkedNanny:
    """What ipyparallel expects of the nanny's Popen object."""

    def __init__(self, pid: int, pipe: IO[str]) -> None:
        self.pid = pid
        self.stdout = pipe  # the nanny ends when this end of the pipe closes


def fork_nanny(**kwargs: Any) -> tuple[str, ForkedNanny]:
    """Stand in for `ipyparallel.engine.nanny.start_nanny`, by fork."""
    import zmq
    from ipyparallel.engine.nanny import KernelNanny

    kwargs["pid"] = engine = os.getpid()
    kwargs["log_level"] = logging.ERROR  # the log is for the rank's own words
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(read)
            zmq.Context._instance = None
            import asyncio

            asyncio.events._set_running_loop(None)
            asyncio.set_event_loop(None)
            if os.getppid() == engine:
                KernelNanny.main(pipe=os.fdopen(write, "w", buffering=1), **kwargs)
        finally:
            os._exit(0)
    os.close(write)
    pipe = os.fdopen(read)
    url = pipe.readline().strip()
    if not url:
        raise RuntimeError("the nanny of this engine ended before it was ready")
    return url, ForkedNanny(pid, pipe)
