"""What this rank is about to do in a collective, as whole numbers.

The numbers of all ranks are exchanged and compared, see `comparison`.
"""

from __future__ import annotations

import sys
import zlib
from typing import Any

import torch
from torch import distributed as dist

from course_utils.text import is_cell

NONE, MAX_DIMS = -1, 8
DTYPES = sorted(
    {v for v in vars(torch).values() if isinstance(v, torch.dtype)}, key=str
)
REDUCTIONS = list(dist.ReduceOp.RedOpType.__members__)
# What a collective is about, by the names of its parameters: the tensor whose
# shape and dtype every rank must share, and the list of buffers, if it has one.
TENSOR = {
    "all_gather": "tensor",
    "all_gather_single": "input_tensor",
    "all_gather_into_tensor": "input_tensor",
    "all_reduce": "tensor",
    "broadcast": "tensor",
    "gather": "tensor",
    "scatter": "tensor",
    "reduce": "tensor",
    "reduce_scatter": "output",
    "reduce_scatter_single": "output",
    "reduce_scatter_tensor": "output",
    "all_to_all": None,
    "all_to_all_single": None,
    "barrier": None,
    "all_gather_object": None,
    "gather_object": None,
    "broadcast_object_list": None,
    "scatter_object_list": None,
}
BUFFERS = {
    "all_gather": "tensor_list",
    "gather": "gather_list",
    "scatter": "scatter_list",
    "reduce_scatter": "input_list",
}
FILLED = ("all_gather", "gather")  # these write to their buffers
WHOLE = {  # the one tensor that holds a piece for every rank
    "all_gather_single": "output_tensor",
    "all_gather_into_tensor": "output_tensor",
    "reduce_scatter_single": "input",
    "reduce_scatter_tensor": "input",
}
OPERATIONS = list(TENSOR)
PROBLEMS = (
    "",
    "passed a list that names one buffer several times, as [t] * n does; "
    "every rank's piece needs a buffer of its own",
    "passed a list whose length is not the number of ranks in the group, {count}",
    "passed buffers whose shape or dtype is not that of its tensor",
    "passed a tensor for the whole that does not hold {count} times as many "
    "elements as the piece",
    "is the root and passed no list",
    "passed a tensor that is not contiguous, which gives wrong values here; "
    "pass .contiguous()",
)
ALIASED, LENGTH, UNLIKE, SIZE, NO_LIST, LAYOUT = range(1, len(PROBLEMS))
RAW = ("broadcast", "all_reduce", "reduce")  # copy memory as it lies, in place


def record(name: str, given: dict[str, Any], ranks: list[int]) -> list[int]:
    """Write what this rank is about to do as whole numbers.

    Problem, operation, root, reduction, dtype, number of objects, line of the
    cell, layout in memory, number of dimensions, shape.
    """
    tensor = given.get(TENSOR[name] or "")
    is_tensor = isinstance(tensor, torch.Tensor)
    shape = list(tensor.shape)[:MAX_DIMS] if is_tensor else []
    objects = given.get("object_list") if name == "broadcast_object_list" else None
    return [
        problem(name, given, tensor, ranks),
        OPERATIONS.index(name),
        root(given, ranks),
        reduction_number(given.get("op")),
        DTYPES.index(tensor.dtype) if is_tensor else NONE,
        NONE if objects is None else len(objects),
        cell_line(),
        layout(tensor) if is_tensor and name in RAW else NONE,
        tensor.dim() if is_tensor else NONE,
        *shape,
        *[NONE] * (MAX_DIMS - len(shape)),
    ]


def layout(tensor: torch.Tensor) -> int:
    """Return a number that tells apart in which order elements lie in memory."""
    if tensor.is_contiguous():  # of a dim of size 1 the stride may be anything
        return 0
    return zlib.crc32(str(tensor.stride()).encode())


def reduction_number(op: Any) -> int:
    """Return the number of a reduction such as SUM, or NONE."""
    name = str(getattr(op, "op", op)).rpartition(".")[2].partition(":")[0]
    return REDUCTIONS.index(name) if name in REDUCTIONS else NONE


def root(given: dict[str, Any], ranks: list[int]) -> int:
    """Return the global rank that the call names as its root, or NONE."""
    for name in ("src", "dst"):
        if name in given:
            if given[name] is not None:
                return given[name]
            in_group = given.get(f"group_{name}")
            return ranks[in_group] if in_group is not None else 0
    return NONE


def problem(name: str, given: dict, tensor: Any, ranks: list[int]) -> int:
    """Return the number of what this rank alone does wrong, 0 for nothing."""
    buffers = given.get(BUFFERS.get(name, ""))
    listed = isinstance(buffers, (list, tuple))
    whole = given.get(WHOLE.get(name, ""))
    is_root = root(given, ranks) == dist.get_rank()
    forgotten = buffers is None or listed and not buffers
    if name in ("gather", "scatter") and is_root and forgotten:
        return NO_LIST
    if name == "scatter":
        if not all(map(packed, [tensor, *(buffers if listed else ())])):
            return LAYOUT
    if listed and isinstance(tensor, torch.Tensor):
        return list_problem(name, buffers, tensor, ranks)
    if isinstance(whole, torch.Tensor) and isinstance(tensor, torch.Tensor):
        return SIZE if whole.numel() != len(ranks) * tensor.numel() else 0
    return 0


def packed(tensor: Any) -> bool:
    """Tell whether a tensor is contiguous; what is no tensor counts as such."""
    return not isinstance(tensor, torch.Tensor) or tensor.is_contiguous()


def list_problem(name: str, buffers, tensor: torch.Tensor, ranks: list[int]) -> int:
    """Return the number of what is wrong with a list of buffers, 0 for nothing."""
    if not all(isinstance(b, torch.Tensor) for b in buffers):
        return 0  # torch tells
    if len(buffers) != len(ranks) and buffers:
        return LENGTH
    if any(b.shape != tensor.shape or b.dtype != tensor.dtype for b in buffers):
        return UNLIKE
    places = {(b.data_ptr(), b.stride()) for b in buffers if b.numel()}
    if name in FILLED and len(places) < sum(b.numel() > 0 for b in buffers):
        return ALIASED
    return 0


def cell_line() -> int:
    """Return the line of the cell that makes the call; NONE outside a cell."""
    line, frame = NONE, sys._getframe(1)
    while frame is not None:
        if is_cell(frame.f_code.co_filename):
            line = frame.f_lineno
        frame = frame.f_back
    return line
