"""Measure the memory that a block of code takes on this rank.

    with peak_memory() as memory:
        dist.all_gather(buffers, shard)
    memory.peak, memory.kept            # bytes

It needs this rank alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import distributed as dist
from torch.autograd.profiler import profile


@dataclass
class Memory:
    """Bytes that a block of code added: at its worst moment, and at its end."""

    peak: int = 0
    kept: int = 0


@contextmanager
def peak_memory() -> Iterator[Memory]:
    """Measure the memory that a ``with`` block allocates through torch, in bytes.

    On CPUs every allocation of torch's allocator counts, in whatever thread: tensors,
    and the buffers that gloo makes inside a collective. On GPUs it is the peak of the
    caching allocator. Memory that the block found allocated counts as 0, and less
    than 0 where the block frees it.

    It cannot see what does not come from torch's allocator: Python objects (the bytes
    of a pickle), numpy arrays, the sockets' buffers in the kernel, nccl's own buffers.
    Nor does it know whether a page was ever touched: a tensor from `torch.empty`
    counts in full, also where the system never had to give the memory.
    `resident_memory` is the independent witness, which sees just that.

    Raises RuntimeError inside another profiler.
    """
    memory = Memory()
    if dist.is_initialized() and "nccl" in dist.get_backend():
        yield from _on_gpu(memory)
        return
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # else it writes to the notebook
    with profile(use_cpu=True, profile_memory=True, acc_events=False) as profiled:
        yield memory
    events = [e for e in profiled.kineto_results.events() if e.name() == "[memory]"]
    for event in sorted(events, key=lambda e: e.start_ns()):
        memory.kept += event.nbytes()
        memory.peak = max(memory.peak, memory.kept)


def _on_gpu(memory: Memory) -> Iterator[Memory]:
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    yield memory
    torch.cuda.synchronize()
    memory.peak = torch.cuda.max_memory_allocated() - before
    memory.kept = torch.cuda.memory_allocated() - before
