"""Initialise and destroy the default process group of this rank."""

from __future__ import annotations

import gc
import os
import socket
import sys
import traceback
from datetime import timedelta

import torch
import torch.distributed.nn.functional  # else it keeps the first group as a default
from torch import distributed as dist

from course_utils.mpi_backend import register
from course_utils.process_group.waits import begin_anew, leave, wait_in_steps


def init(backend: str, timeout: float, store: str | tuple[str, int]) -> str:
    """Join the default process group; return its backend.

    Rank and world size come from the environment, as under torchrun.

    backend: "gloo", "nccl" or another name that torch knows; "mpi" works on any torch,
        see `course_utils.mpi_backend`.
    timeout: seconds after which a collective that waits fails.
    store: path of a file that no group has used before (all ranks on one
        machine), or the address and port at which `open_store` listens.
    """
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    limit = timedelta(seconds=timeout)
    if backend == "mpi":
        backend = register()
    if backend == "gloo":
        wait_in_steps()
    if backend == "nccl":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    if isinstance(store, str):
        shared = dist.FileStore(store, world_size)
    else:
        shared = _opened.pop(store, None) or dist.TCPStore(
            *store, world_size, is_master=False, timeout=limit
        )
    dist.init_process_group(
        backend,
        store=dist.PrefixStore("course", shared),
        rank=rank,
        world_size=world_size,
        timeout=limit,
    )
    return dist.get_backend()


def destroy(order: int = 0) -> int:
    """Leave all process groups; return how many there were, sub-groups included.

    order: number of the last order to give up these groups, see `still_there`.
    """
    leave(order)
    forget_errors()
    if not dist.is_initialized():
        # A failed init has counted its group, whose name holds the count: ranks
        # that count differently never meet in the next one.
        dist.distributed_c10d._world.group_count = 0
        begin_anew([])
        return 0
    groups = list(dist.distributed_c10d._world.pg_map)
    begin_anew(groups)
    dist.destroy_process_group()
    return len(groups)


def forget_errors() -> None:
    """Clear the frames of the last error, which hold the group that it came from.

    A group of gloo that is held lives on, and the thread that serves its
    connections may poll one whose peer has died, at the cost of a whole core.
    """
    error, seen = getattr(sys, "last_value", None), set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        traceback.clear_frames(error.__traceback__)
        for frame, _ in traceback.walk_tb(error.__traceback__):
            frame.f_locals  # noqa: B018 - a dictionary of its own, emptied by the look
        error = error.__cause__ or error.__context__
    gc.collect()


def open_store(address: str, world_size: int) -> tuple[str, int]:
    """Open a store that listens at `address` alone; return where.

    torch's own TCPStore listens on every interface of the machine, whatever
    address it is given, unless it is handed a socket that is already bound.
    """
    listener = socket.create_server((address, 0))
    port = listener.getsockname()[1]
    _opened[address, port] = dist.TCPStore(
        address,
        port,
        world_size,
        is_master=True,
        wait_for_workers=False,
        master_listen_fd=listener.detach(),
    )
    return address, port


_opened: dict[tuple[str, int], dist.TCPStore] = {}  # until `init` takes it


def device() -> torch.device:
    """Return the device of this rank, chosen by LOCAL_RANK.

    The rank itself would be wrong on the second machine, whose first GPU is 0.
    """
    if dist.is_initialized() and dist.get_backend() == "nccl":
        return torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    return torch.device("cpu")
