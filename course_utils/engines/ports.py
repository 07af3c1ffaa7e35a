"""The controller listens at a port from the moment at which it chooses it.

ipyparallel's looks for free ports, lets them go and binds them later, two of them in
another process, its heart monitor. By then somebody else may have one, and engines
would not be heard. Whoever connects before the controller is ready waits in line.
Addresses of hosts inside this machine are left alone: nobody else is in their network.
"""

from __future__ import annotations

import socket
from typing import Any

LOOPBACK = "127.0.0.1"
IN_LINE = 1024  # connections to a port before it is ready


def listen_at_once() -> None:
    """Let the controller of this process, and its forks, listen at once."""
    import zmq
    from ipyparallel import util

    held: dict[str, socket.socket] = {}  # by the address that zmq will bind
    bind = zmq.Socket.bind

    def select_random_ports(count: int) -> list[int]:
        ports = []
        for _ in range(count):
            listening = socket.create_server((LOOPBACK, 0), backlog=IN_LINE)
            listening.setblocking(False)
            ports.append(listening.getsockname()[1])
            held[f"tcp://{LOOPBACK}:{ports[-1]}"] = listening
        return ports

    def bind_held(self: zmq.Socket, address: str) -> Any:
        if address not in held:
            return bind(self, address)
        self.setsockopt(zmq.USE_FD, held.pop(address).detach())
        try:
            return bind(self, address)
        finally:
            self.setsockopt(zmq.USE_FD, -1)

    util.select_random_ports = select_random_ports
    zmq.Socket.bind = bind_held
