"""Start the kernel of a notebook for certain, and notice at once when it has ended.

nbval itself would wait for the reply of a kernel that has ended until the cell's time
is up, which is 2000 s where nobody said otherwise.
"""

from __future__ import annotations

import time
from queue import Empty
from typing import Any

import nbval.kernel
from nbval.kernel import RunningKernel

LOOK = 1.0  # seconds between looks whether the kernel lives


class KernelEnded(RuntimeError):
    """The kernel ended while a cell ran."""


def watch_kernels() -> None:
    """Let nbval start and look at its kernels as the functions below do."""
    RunningKernel.get_message = get_message
    nbval.kernel.start_new_kernel = start_new_kernel


def get_message(
    kernel: RunningKernel, stream: str, timeout: float | None = None
) -> dict[str, Any]:
    """Stand in for nbval's method: wait for a message of a kernel that lives."""
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        left = LOOK if deadline is None else min(LOOK, deadline - time.monotonic())
        alive = kernel.is_alive()  # before the look: a last message may have come
        try:
            return _get_message(kernel, stream, timeout=max(left, 0))
        except Empty:
            if not alive:
                raise KernelEnded("its kernel ended while it ran") from None
            if deadline is not None and time.monotonic() >= deadline:
                raise


_get_message = RunningKernel.get_message


def start_new_kernel(**options: Any) -> tuple[Any, Any]:
    """Stand in for nbval's function: start again a kernel that lost a port.

    A kernel's ports are chosen before it listens there, and on a busy machine another
    program may have one by then.
    """
    for left in (2, 1, 0):
        try:
            return _start_new_kernel(**options)
        except RuntimeError as error:
            if "died" not in str(error) or not left:
                raise


_start_new_kernel = nbval.kernel.start_new_kernel
