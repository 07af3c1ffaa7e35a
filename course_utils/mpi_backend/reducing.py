"""Operations that add up, or compare, what the ranks hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from mpi4py import MPI
from torch import distributed as dist

from course_utils.mpi_backend.memory import check_whole, in_a_row, packed, raw
from course_utils.mpi_backend.work import Begun

KINDS = {
    torch.float32: MPI.FLOAT,
    torch.float64: MPI.DOUBLE,
    torch.int8: MPI.INT8_T,
    torch.int16: MPI.INT16_T,
    torch.int32: MPI.INT32_T,
    torch.int64: MPI.INT64_T,
    torch.uint8: MPI.UINT8_T,
}
STAND_IN = {  # in which dtype MPI computes for one that it does not know
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.bool: torch.uint8,
}
OPERATIONS = {
    "SUM": MPI.SUM,
    "AVG": MPI.SUM,
    "PRODUCT": MPI.PROD,
    "MIN": MPI.MIN,
    "MAX": MPI.MAX,
    "BAND": MPI.BAND,
    "BOR": MPI.BOR,
    "BXOR": MPI.BXOR,
}
OF_TRUTH = {"SUM": MPI.MAX, "PRODUCT": MPI.MIN}  # many a True must not become a False
WHOLE = ("BAND", "BOR", "BXOR")  # for whole numbers alone
FLOATING = ("AVG",)


def all_reduce(comm: MPI.Comm, tensor: torch.Tensor, op: dist.ReduceOp) -> Begun:
    """Reduce the tensors of all, for all, in place."""
    held, operation = computable(tensor, op)
    request = comm.Iallreduce(MPI.IN_PLACE, typed(held), operation)
    return Begun(request.Test, [held], back(held, tensor, op, comm.size), [tensor])


def reduce(comm: MPI.Comm, tensor: torch.Tensor, op: dist.ReduceOp, root: int) -> Begun:
    """Reduce the tensors of all, for the root, in place; others keep theirs."""
    held, operation = computable(tensor, op)
    if comm.rank != root:
        request = comm.Ireduce(typed(held), None, operation, root)
        return Begun(request.Test, [held], None, [tensor])
    request = comm.Ireduce(MPI.IN_PLACE, typed(held), operation, root)
    return Begun(request.Test, [held], back(held, tensor, op, comm.size), [tensor])


def reduce_scatter(
    comm: MPI.Comm,
    output: torch.Tensor,
    inputs: Sequence[torch.Tensor] | torch.Tensor,
    op: dist.ReduceOp,
) -> Begun:
    """Reduce the inputs of all; each gets the piece of its rank.

    inputs: a list with a tensor for each rank, or all of them in one tensor.
    """
    if isinstance(inputs, torch.Tensor):
        check_whole(inputs, output, comm.size)
        whole = packed(inputs)
    else:
        whole = in_a_row(inputs, output)
    sent, operation = computable(whole, op)
    held = torch.empty(output.shape, dtype=sent.dtype)
    each = [raw(sent), held.numel(), KINDS[sent.dtype]]  # of every rank's piece
    request = comm.Ireduce_scatter_block(each, typed(held), operation)
    after = back(held, output, op, comm.size)
    return Begun(request.Test, [sent, held], after, [output])


def computable(tensor: torch.Tensor, op: dist.ReduceOp) -> tuple[torch.Tensor, MPI.Op]:
    """Return memory in which MPI can reduce for a tensor, and its operation.

    That is the tensor itself where its memory is in order and MPI knows its dtype.
    """
    name, dtype = op.op.name, tensor.dtype
    kind = STAND_IN.get(dtype, dtype)
    refused = name in WHOLE and dtype.is_floating_point
    refused |= name in FLOATING and not dtype.is_floating_point
    if kind not in KINDS or name not in OPERATIONS or refused:
        raise TypeError(f"mpi: cannot reduce {dtype} by {name}: take another dtype")
    operation = OPERATIONS[name]
    if dtype == torch.bool:
        operation = OF_TRUTH.get(name, operation)
    return packed(tensor).to(kind), operation


def back(
    held: torch.Tensor, tensor: torch.Tensor, op: dist.ReduceOp, size: int
) -> Callable[[], object] | None:
    """Return what brings a result into a tensor; None if it is there."""
    average = op.op.name == "AVG"
    if held.data_ptr() == tensor.data_ptr() and not average:
        return None
    return lambda: tensor.copy_(held.div_(size) if average else held)


def typed(tensor: torch.Tensor) -> list:
    """Return the memory of a tensor with the dtype that MPI computes in."""
    return [raw(tensor), tensor.numel(), KINDS[tensor.dtype]]
