"""Memory for what is joined.

The system hands memory out in pages of 4 KiB, and the first write to each is a call of
its own. Where the whole is large that takes longer than to copy what belongs there, so
it is asked for in huge pages: 2 MiB each, on Linux, if the system allows that.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from functools import cache

import torch

LARGE = 2**22  # bytes
PAGE = 4096
HUGE = 14  # MADV_HUGEPAGE


def empty(
    shape: Sequence[int], dtype: torch.dtype, device: torch.device | str
) -> torch.Tensor:
    """Return memory for a tensor, as torch.empty does."""
    made = torch.empty(shape, dtype=dtype, device=device)
    if made.nbytes >= LARGE and made.is_cpu and sys.platform == "linux":
        advise(made.data_ptr(), made.nbytes)
    return made


def advise(start: int, size: int) -> None:
    """Ask for huge pages; a system that has none goes on without."""
    begin = -(-start // PAGE) * PAGE
    end = (start + size) // PAGE * PAGE
    advice()(begin, end - begin, HUGE)


@cache
def advice() -> Callable[[int, int, int], int]:
    """Return the system's function for it."""
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    return madvise
