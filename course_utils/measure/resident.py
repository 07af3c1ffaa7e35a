"""The resident memory of this process: the independent witness, and a limit.

It asks the operating system, not torch, so it sees every page that was touched,
whoever allocated it, and none that was not. Linux with glibc only.

    return_freed_memory()               # before the first large tensor is made
    with memory_limit(6 * shard.nbytes):
        ...
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from course_utils.measure.peak import Memory
from course_utils.text import show_bytes

M_MMAP_THRESHOLD = -3  # of glibc's mallopt
THRESHOLD = 64 * 1024  # bytes from which a block has pages of its own
RESET_PEAK = "5"  # what /proc/self/clear_refs calls it (man 5 proc)
SCRAPS = 8 * 2**20  # bytes in small gaps of the heap; a world that starts has 1 MiB


class HeapUse(ctypes.Structure):
    """What glibc's mallinfo2 returns, in bytes, of all arenas (man 3 mallinfo)."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


def return_freed_memory() -> None:
    """Have glibc give every freed block of 64 KiB or more back to the system at once.

    By default it keeps freed memory and hands it out again, which is fast, and hides
    from the system what is in use. This holds for blocks made from now on, and for
    the life of the process; large allocations get slow, since each page comes anew:
    never time anything in the process afterwards. Nothing happens where the C library
    is not glibc.
    """
    if libc := _glibc():
        libc.mallopt(M_MMAP_THRESHOLD, THRESHOLD)
        libc.malloc_trim(0)


@contextmanager
def resident_memory() -> Iterator[Memory]:
    """Measure how far a ``with`` block raises the resident memory, in bytes.

    Within 2 % from 8 MB upward, if the block has run before: the first run touches
    pages of code, too. Below that, what the interpreter does meanwhile shows.

    It calls `return_freed_memory`, since else a block may reuse memory that was
    touched before, and half of it goes unseen.

    Raises OSError where the system has no such counters.
    """
    if not _glibc() or not Path("/proc/self/clear_refs").exists():
        raise OSError("resident_memory: expected Linux with glibc; use peak_memory")
    return_freed_memory()
    Path("/proc/self/clear_refs").write_text(RESET_PEAK)
    before, memory = _status("VmRSS"), Memory()
    yield memory
    memory.peak = _status("VmHWM") - before
    memory.kept = _status("VmRSS") - before


@contextmanager
def memory_limit(count: int) -> Iterator[None]:
    """Let a ``with`` block add at most `count` bytes to this process.

    Beyond that torch raises RuntimeError, "can't allocate memory", in place of the
    system ending the process. The limit is one of data that the process may write,
    lifted at the end of the block; one of address space would not count the room that
    each thread's heap has reserved. Call `return_freed_memory` before the first large
    tensor is made: what glibc has kept by then it hands out again, limit or not.

    Raises ValueError for a count below 0, and RuntimeError where glibc has kept so
    much that the limit would not hold; OSError where the C library is not glibc.
    """
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise ValueError(f"count: expected 0 bytes or more, got {count!r}")
    if not _glibc():
        raise OSError("memory_limit: expected Linux with glibc; nothing limits memory")
    return_freed_memory()
    if (kept := _kept()) > SCRAPS:
        raise RuntimeError(
            f"memory_limit: expected a process that has given back what was freed, got "
            f"{show_bytes(kept)} that the C library would hand out again beyond the "
            "limit; start the ranks anew and call return_freed_memory() before the "
            "first large tensor is made"
        )
    import resource  # which Windows does not have

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (_status("VmData") + count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _glibc() -> ctypes.CDLL | None:
    """Return the C library if it is glibc."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)
    return libc if hasattr(libc, "mallopt") and hasattr(libc, "malloc_trim") else None


def _kept() -> int:
    """Return the bytes that were freed and that glibc keeps; 0 before glibc 2.33."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallinfo2"):
        return 0
    libc.mallinfo2.restype = HeapUse
    return libc.mallinfo2().fordblks


def _status(field: str) -> int:
    """Return a field of /proc/self/status, in bytes."""
    text = Path("/proc/self/status").read_text()
    return int(re.search(rf"^{field}:\s+(\d+) kB$", text, re.M)[1]) * 1024
