"""An engine's heart beats once its connections stand.

The controller tells the client of an engine whose heart beats, and drops what is sent
to an engine that is not connected yet. ipyparallel leaves it to the length of a beat.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import zmq
from ipyparallel.engine.app import IPEngine

LIMIT = 5.0  # seconds that an engine waits for its connections
AGAIN = 5, 100  # ms until a connection is tried again: at first, and at most


class Connections:
    """The connections that an engine has begun to make."""

    def __init__(self) -> None:
        self._monitors: dict[zmq.Socket, zmq.Socket] = {}
        self._open: dict[zmq.Socket, int] = {}  # connections that do not stand yet

    def add(self, made: zmq.Socket) -> None:
        """Count one more connection of a socket, which is about to be made."""
        if made not in self._monitors:
            made.reconnect_ivl, made.reconnect_ivl_max = AGAIN
            events = zmq.Event.HANDSHAKE_SUCCEEDED
            self._monitors[made] = made.get_monitor_socket(events)
        self._open[made] = self._open.get(made, 0) + 1

    def wait(self, limit: float) -> None:
        """Wait until all of them stand, for `limit` seconds at most."""
        deadline = time.monotonic() + limit
        for made, monitor in self._monitors.items():
            for _ in range(self._open[made]):
                left = max(0.0, deadline - time.monotonic())
                if monitor.poll(1000 * left):
                    monitor.recv_multipart()
            made.disable_monitor()
        self._monitors.clear()
        self._open.clear()


def beat_once_connected() -> None:
    """Let the engines of this process and its forks beat once they are connected."""
    connector, start = IPEngine.init_connector, IPEngine.start_heartbeat

    def init_connector(self) -> tuple[Callable[..., Any], Callable[[str], str]]:
        connect, tunnel = connector(self)
        self.connections = Connections()

        def connect_counted(made: zmq.Socket, *args, **kwargs):
            self.connections.add(made)
            return connect(made, *args, **kwargs)

        return connect_counted, tunnel

    def start_heartbeat(self, *args) -> None:
        self.connections.wait(LIMIT)
        start(self, *args)

    IPEngine.init_connector = init_connector
    IPEngine.start_heartbeat = start_heartbeat
