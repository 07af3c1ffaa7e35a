"""Anonymous memory that other processes of this user can map.

It is reached through /proc while its owner lives: nothing is left of it when the
processes have ended, however they did.
"""

from __future__ import annotations

import functools
import hashlib
import mmap
import os
import socket
import sys
import weakref
from pathlib import Path

from torch import distributed as dist

SWITCH = "CONCAT_SHARED_MEMORY"
SPACES = ("pid", "net")  # namespaces that ranks share where they count as one host
OPTIONS = getattr(mmap, "MAP_SHARED", 0) | getattr(mmap, "MAP_POPULATE", 0)


class Memory:
    """Memory of `size` bytes, open as `fd`; serial: tells it from any other.

    Raises OSError, or AttributeError, where the system has none, or not as much.
    """

    def __init__(self, name: str, size: int) -> None:
        self.fd = os.memfd_create(f"course_utils.{name}", os.MFD_CLOEXEC)
        weakref.finalize(self, os.close, self.fd)
        os.posix_fallocate(self.fd, 0, size)  # or a later write would kill us
        self.serial = os.fstat(self.fd).st_ino
        self.bytes = mapped(self.fd)


def mapped(fd: int) -> mmap.mmap:
    """Return a file's memory; it is kept when the file is closed."""
    return mmap.mmap(fd, 0, OPTIONS)


def reached(pid: int, fd: int, serial: int) -> mmap.mmap:
    """Return the memory that a process of this host has open as `fd`.

    Raises OSError if it cannot be reached, or is another than that of this serial.
    """
    mine = os.open(f"/proc/{pid}/fd/{fd}", os.O_RDWR | os.O_CLOEXEC)
    try:
        if os.fstat(mine).st_ino != serial:
            raise OSError("another file")
        return mapped(mine)
    finally:
        os.close(mine)


def wanted() -> bool:
    """Tell whether this rank may share memory, as far as its environment says."""
    return os.environ.get(SWITCH) != "0"


def say(why: str, what: str = "shared memory") -> None:
    """Say why there is none of it, if that is asked for."""
    if os.environ.get(SWITCH) == "debug":
        print(f"rank {dist.get_rank()}: no {what}: {why}", file=sys.stderr)


@functools.cache
def this_host() -> int:
    """Return a number for this host as its processes see it, from 2 upward."""
    seen = [Path("/proc/sys/kernel/random/boot_id").read_text(), socket.gethostname()]
    seen += [os.readlink(f"/proc/self/ns/{space}") for space in SPACES]
    digest = hashlib.blake2b("\n".join(seen).encode(), digest_size=7).digest()
    return 2 + int.from_bytes(digest)
