"""Sleep until another process changes a number in shared memory.

Linux calls it futex: a lock that costs nothing while nobody waits. Python has no name
for it, so it is called by its number, which is that of x86-64.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

NUMBER = 202
WAIT, WAKE = 0, 1
ALL = 2**31 - 1


class Seconds(ctypes.Structure):
    """A time span, as the system wants it."""

    _fields_ = (("whole", ctypes.c_long), ("nano", ctypes.c_long))


def span(seconds: float) -> Seconds:
    """Return a time span."""
    return Seconds(int(seconds), int(seconds % 1 * 1e9))


@cache
def system_call() -> Callable[..., int]:
    """Return the function that calls the system by number, which Windows lacks."""
    call = ctypes.CDLL(None).syscall
    call.argtypes = (
        ctypes.c_long,
        ctypes.c_void_p,
        ctypes.c_int,
        ctypes.c_uint32,
        ctypes.POINTER(Seconds),
    )
    return call


def wait(address: int, seen: int, limit: Seconds) -> None:
    """Sleep while the 32 bits at an address are as seen, for so long at most.

    It may return before, as when the process gets a signal.
    """
    system_call()(NUMBER, address, WAIT, seen & 0xFFFFFFFF, limit)


def wake(address: int) -> None:
    """Wake all that sleep until what is at an address changes."""
    system_call()(NUMBER, address, WAKE, ALL, None)
