"""The resident memory of this process: the independent witness, and a limit.

It asks the operating system, not torch, so it sees every page that was touched,
whoever allocated it, and none that was not. Linux with glibc only.
"""

from __future__ import annotations

import ctypes
import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from course_utils.measure import Memory

M_MMAP_THRESHOLD = -3  # of glibc's mallopt
THRESHOLD = 64 * 1024  # bytes from which a block has pages of its own
RESET_PEAK = "5"  # what /proc/self/clear_refs calls it (man 5 proc)


@contextmanager
def resident_memory() -> Iterator[Memory]:
    """Measure how far a ``with`` block raises the resident memory, in bytes.

    Within 2 % from 8 MB upward, if the block has run before: the first run touches
    pages of code, too. Below that, what the interpreter does meanwhile shows.

    glibc is told to give larger blocks pages of their own, since else a block may
    reuse memory that was touched before, and half of it goes unseen. That stays so
    for the life of the process and makes large allocations slow: never time anything
    in it afterwards.

    Raises OSError where the system has no such counters.
    """
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallopt") or not Path("/proc/self/clear_refs").exists():
        raise OSError("resident_memory: expected Linux with glibc; use peak_memory")
    libc.mallopt(M_MMAP_THRESHOLD, THRESHOLD)
    libc.malloc_trim(0)
    Path("/proc/self/clear_refs").write_text(RESET_PEAK)
    before, memory = _status("VmRSS"), Memory()
    yield memory
    memory.peak = _status("VmHWM") - before
    memory.kept = _status("VmRSS") - before


@contextmanager
def memory_limit(count: int) -> Iterator[None]:
    """Let a ``with`` block add at most `count` bytes to this process.

    Beyond that torch raises RuntimeError, "can't allocate memory", in place of the
    system ending the process. The limit is one of address space, set aside at the end
    of the block; memory is given back before, so that `count` is what is left.
    """
    if not isinstance(count, int) or count < 0:
        raise ValueError(f"count: expected 0 bytes or more, got {count!r}")
    libc = ctypes.CDLL(None)
    libc.mallopt(M_MMAP_THRESHOLD, THRESHOLD)
    libc.malloc_trim(0)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_status("VmSize") + count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _status(field: str) -> int:
    """Return a field of /proc/self/status, in bytes."""
    text = Path("/proc/self/status").read_text()
    return int(re.search(rf"^{field}:\s+(\d+) kB$", text, re.M)[1]) * 1024
