"""End the connections of this process over the network."""

from __future__ import annotations

import os
import socket


def shut_down(fd: int) -> None:
    """End a connection, for whoever waits on it; leave alone what only listens."""
    try:
        with socket.socket(fileno=os.dup(fd)) as connection:
            connection.getpeername()
            connection.shutdown(socket.SHUT_RDWR)
    except OSError:  # it listens, or was closed meanwhile
        pass
