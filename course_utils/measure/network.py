"""What goes over the connections of this process, as the kernel counts it."""

from __future__ import annotations

import os
import socket
import stat
import struct

# Where these stand in struct tcp_info (linux/tcp.h), which old kernels cut short.
RECEIVED, SENT, SENT_AGAIN = 128, 200, 208


def sent_bytes() -> int:
    """Return the bytes that this process has sent over the network, each once.

    To the same machine counts, too; what ranks hand over in shared memory does not.
    Linux alone counts them.
    """
    return sum(traffic(fd)[0] for fd in sockets())


def sockets() -> set[int]:
    """Return the descriptors of this process that are network sockets."""
    found = set()
    for name in os.listdir("/dev/fd") if os.path.isdir("/dev/fd") else []:
        try:
            if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                with socket.socket(fileno=os.dup(int(name))) as s:
                    if s.family in (socket.AF_INET, socket.AF_INET6):
                        found.add(int(name))
        except OSError:  # closed meanwhile
            pass
    return found


def traffic(fd: int, except_port: int = 0) -> tuple[int, int]:
    """Return the bytes that a TCP connection has sent, each once, and received.

    Counted by the kernel; zeros for what only listens or was closed meanwhile.

    except_port: of a server, whose connections count as zeros, too, at both ends.
    """
    try:
        with socket.socket(fileno=os.dup(fd)) as connection:
            ends = connection.getpeername(), connection.getsockname()
            if except_port and except_port in (end[1] for end in ends):
                return 0, 0
            info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        received, sent, again = (
            struct.unpack_from("Q", info, at)[0] for at in (RECEIVED, SENT, SENT_AGAIN)
        )
    except (OSError, struct.error):
        return 0, 0
    return sent - again, received
