"""The heart monitor of a forked world: engines are heard as soon as they live.

ipyparallel's pings all hearts once in a period, and tells at the next ping who has
answered: a new engine waits for one and a half periods on average. This one pings
when a heart begins to listen, and tells of a new heart when it answers.
"""

from __future__ import annotations

import asyncio

import zmq
from ipyparallel.controller import heartmonitor

SUBSCRIBES = b"\x01"  # how the message begins by which a heart begins to listen


class Monitor(heartmonitor.HeartMonitor):
    """A heart monitor that greets new hearts."""

    def start(self) -> None:
        """Begin to ping all hearts."""
        super().start()
        self.ping_stream.on_recv(self.greet)

    def greet(self, message: list[bytes]) -> None:
        """Ping at once, for a heart that has just begun to listen."""
        if message[0].startswith(SUBSCRIBES):
            self.ping_stream.send(str(self.lifetime).encode("ascii"))
            self.ping_stream.flush()

    def handle_pong(self, message: list[bytes]) -> None:
        """Take in the answer of a heart; tell at once of one that is new."""
        super().handle_pong(message)
        if new := self.responses - self.hearts:
            self.handle_new_hearts(new)


class Context(zmq.Context):
    """A context whose publishing sockets tell who subscribes."""

    def socket(self, kind: int, *args, **kwargs) -> zmq.Socket:
        """Return a socket."""
        if kind != zmq.PUB:
            return super().socket(kind, *args, **kwargs)
        made = super().socket(zmq.XPUB, *args, **kwargs)
        made.setsockopt(zmq.XPUB_VERBOSE, 1)  # every heart, not only the first
        return made


def start_heartmonitor(**settings) -> None:
    """Stand in for ipyparallel's function of this name; return never."""
    heartmonitor.HeartMonitor = Monitor
    loop = asyncio.new_event_loop()
    started = heartmonitor._setup_heartmonitor(ctx=Context(), **settings)
    loop.run_until_complete(started)
    loop.run_forever()
