"""Operations that move bytes, and compute nothing: each begins a call of MPI's."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
from mpi4py import MPI

from course_utils.mpi_backend.memory import (
    check_equal,
    check_kinds,
    check_whole,
    in_a_row,
    landing,
    packed,
    raw,
    spread,
)
from course_utils.mpi_backend.work import Begun

TAGS = MPI.COMM_WORLD.Get_attr(MPI.TAG_UB) + 1


def broadcast(comm: MPI.Comm, tensor: torch.Tensor, root: int) -> Begun:
    """Send the tensor of the root to all."""
    held, after = landing(tensor)
    return Begun(comm.Ibcast(raw(held), root).Test, [held], after, [tensor])


def all_gather(
    comm: MPI.Comm, outputs: Sequence[torch.Tensor], tensor: torch.Tensor
) -> Begun:
    """Send the tensors of all to all, into a list."""
    check_equal(outputs, tensor)
    held, rows = packed(tensor), tensor.new_empty((comm.size, tensor.numel()))
    return Begun(
        comm.Iallgather(raw(held), raw(rows)).Test,
        [held, rows],
        lambda: spread(rows, outputs),
        outputs,
    )


def all_gather_single(
    comm: MPI.Comm, output: torch.Tensor, tensor: torch.Tensor
) -> Begun:
    """Send the tensors of all to all, into one tensor."""
    check_whole(output, tensor, comm.size)
    held, (whole, after) = packed(tensor), landing(output)
    request = comm.Iallgather(raw(held), raw(whole))
    return Begun(request.Test, [held, whole], after, [output])


def gather(
    comm: MPI.Comm, outputs: Sequence[torch.Tensor], tensor: torch.Tensor, root: int
) -> Begun:
    """Send the tensors of all to the root, into a list; others pass an empty one."""
    held = packed(tensor)
    if comm.rank != root:
        return Begun(comm.Igather(raw(held), None, root).Test, [held])
    check_equal(outputs, tensor)
    rows = tensor.new_empty((comm.size, tensor.numel()))
    return Begun(
        comm.Igather(raw(held), raw(rows), root).Test,
        [held, rows],
        lambda: spread(rows, outputs),
        outputs,
    )


def scatter(
    comm: MPI.Comm, tensor: torch.Tensor, inputs: Sequence[torch.Tensor], root: int
) -> Begun:
    """Send one tensor of the root's list to each; others pass an empty one."""
    held, after = landing(tensor)
    rows = in_a_row(inputs, tensor) if comm.rank == root else held
    sent = raw(rows) if comm.rank == root else None
    request = comm.Iscatter(sent, raw(held), root)
    return Begun(request.Test, [held, rows], after, [tensor])


def all_to_all_single(
    comm: MPI.Comm,
    output: torch.Tensor,
    tensor: torch.Tensor,
    received: Sequence[int],
    sent: Sequence[int],
) -> Begun:
    """Send a piece of a tensor to each, and receive one from each.

    received, sent: the rows of every rank's piece; equal ones if empty.
    """
    held, (whole, after) = packed(tensor), landing(output)
    outgoing = in_pieces(held, row_counts(held, sent, comm.size))
    incoming = in_pieces(whole, row_counts(whole, received, comm.size))
    request = comm.Ialltoallv(outgoing, incoming)
    return Begun(request.Test, [held, whole], after, [output])


def all_to_all(
    comm: MPI.Comm, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]
) -> Begun:
    """Send a tensor of a list to each, and receive one from each into another list."""
    check_kinds([*outputs, *inputs])
    held = torch.cat([packed(tensor).reshape(-1) for tensor in inputs])
    whole = held.new_empty(sum(tensor.numel() for tensor in outputs))
    outgoing = in_pieces(held, [tensor.nbytes for tensor in inputs])
    incoming = in_pieces(whole, [tensor.nbytes for tensor in outputs])
    pieces = whole.split([tensor.numel() for tensor in outputs])
    request = comm.Ialltoallv(outgoing, incoming)
    return Begun(request.Test, [held, whole], lambda: spread(pieces, outputs), outputs)


def send(comm: MPI.Comm, tensor: torch.Tensor, to: int, tag: int) -> Begun:
    """Send a tensor to one rank of the group."""
    held = packed(tensor)
    return Begun(comm.Isend(raw(held), to, tag % TAGS).Test, [held])


def receive(comm: MPI.Comm, tensor: torch.Tensor, source: int, tag: int) -> Begun:
    """Receive a tensor from one rank of the group, or from any: ``MPI.ANY_SOURCE``."""
    (held, after), status = landing(tensor), MPI.Status()
    request = comm.Irecv(raw(held), source, tag % TAGS)
    return Begun(
        lambda: request.Test(status), [held], after, [tensor], status.Get_source
    )


def row_counts(tensor: torch.Tensor, rows: Sequence[int], size: int) -> list[int]:
    """Return the bytes of every rank's piece of a tensor.

    rows: of each piece; equal ones if empty.
    """
    length = len(tensor) if tensor.dim() else 0
    rows = list(rows) or [length // size] * size
    if sum(rows) != length:
        raise ValueError(
            f"mpi: expected pieces that add up to the {length} rows of the tensor, got "
            f"{rows}"
        )
    return [count * tensor.nbytes // max(length, 1) for count in rows]


def in_pieces(tensor: torch.Tensor, counts: Sequence[int]) -> list:
    """Return the memory of a tensor cut into pieces of so many bytes."""
    begins = [0, *accumulate(counts)][:-1]
    return [raw(tensor), (counts, begins), MPI.BYTE]
