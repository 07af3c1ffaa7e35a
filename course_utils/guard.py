"""Compare every collective across the ranks before it runs.

gloo compares nothing: unequal shapes or dtypes give wrong numbers, or abort an
innocent process. `install` wraps the collectives of `torch.distributed`, so that
the ranks of the group first exchange one small message that says what each is
about to do. If they disagree, every rank raises the same error and no data
moves; the group stays usable.

torch has such a check (TORCH_DISTRIBUTED_DEBUG=DETAIL), but it counts messages
between two ranks, too: after one send from rank 0 to rank 1 it fails every
later collective of all ranks. It also takes several times as long, and does not
compare roots.
"""

from __future__ import annotations

import functools
import inspect
import sys
import zlib
from collections.abc import Callable
from typing import Any

import torch
from torch import distributed as dist

from course_utils.stacks import is_cell
from course_utils.text import aligned, indent, these_ranks

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


class CollectiveError(RuntimeError):
    """The ranks disagree on a collective, or one of them calls it wrongly."""


def install() -> None:
    """Guard the collectives of `torch.distributed` in this process."""
    for name in OPERATIONS:
        function = getattr(dist, name, None)
        if function is not None and not hasattr(function, "unguarded"):
            setattr(dist, name, guard(name, function))


def uninstall() -> None:
    """Put torch's own functions back."""
    for name in OPERATIONS:
        function = getattr(dist, name, None)
        if hasattr(function, "unguarded"):
            setattr(dist, name, function.unguarded)


def guard(name: str, function: Callable) -> Callable:
    """Return a collective that compares before it runs."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def guarded(*args, **kwargs):
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            return function(*args, **kwargs)  # which tells what is wrong
        bound.apply_defaults()
        given = bound.arguments
        group = given.get("group") or dist.group.WORLD
        if comparable(given, group):
            compare(name, given, group)
        return function(*args, **kwargs)

    guarded.unguarded = function
    return guarded


def comparable(given: dict[str, Any], group: Any) -> bool:
    """Tell whether this process is in the group, and has peers to compare with."""
    if not isinstance(group, dist.ProcessGroup) or dist.get_rank(group) < 0:
        return False
    if dist.get_world_size(group) == 1 or dist.get_backend(group) == "fake":
        return False
    return not any(isinstance(v, torch.Tensor) and v.is_meta for v in given.values())


def compare(name: str, given: dict[str, Any], group: dist.ProcessGroup) -> None:
    """Exchange what the ranks are about to do; raise CollectiveError on all if
    they disagree."""
    ranks = dist.get_process_group_ranks(group)
    mine = record(name, given, ranks)
    device = "cuda" if "nccl" in dist.get_backend(group) else "cpu"
    flat = torch.empty(len(ranks) * len(mine), dtype=torch.int64, device=device)
    single = dist.distributed_c10d.all_gather_single
    single(flat, torch.tensor(mine, device=device), group=group)
    every = dict(zip(ranks, flat.view(len(ranks), -1).tolist(), strict=True))
    text = verdict(every)
    if text:
        raise CollectiveError(text)


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


def verdict(every: dict[int, list[int]]) -> str:
    """Say what is wrong with a collective, from the records of all ranks."""
    calls = {OPERATIONS[row[1]] for row in every.values()}
    found = next((row for row in every.values() if row[0]), None)
    if found is not None:
        who = these_ranks(rank for rank, row in every.items() if row[0] == found[0])
        text = PROBLEMS[found[0]].format(count=len(every))
        return f"{OPERATIONS[found[1]]} did not run: {who} {text}"
    columns = {
        "operation": {rank: OPERATIONS[row[1]] for rank, row in every.items()},
        "root": {rank: row[2] for rank, row in every.items()},
        "reduction": {rank: reduction(row) for rank, row in every.items()},
        "shape": {rank: shape(row) for rank, row in every.items()},
        "dtype": {rank: dtype(row) for rank, row in every.items()},
        "objects": {rank: row[5] for rank, row in every.items()},
        "layout in memory": {rank: row[7] for rank, row in every.items()},
    }
    differing = [n for n, column in columns.items() if len(set(column.values())) > 1]
    if len(calls) > 1:
        differing = ["operation"]
    elif "shape" in differing:
        differing = [n for n in differing if n != "layout in memory"]
    if not differing:
        return ""
    what = " and the ".join(differing)
    where = calls.pop() if len(calls) == 1 else "a collective"
    return "\n".join(
        [
            f"the ranks disagree on the {what} of {where}, so it did not run",
            *indent(aligned(rows(every, columns))),
        ]
    )


def rows(every: dict[int, list[int]], columns: dict[str, dict]) -> list[tuple]:
    """Return a table of the records: a heading, and a row for each rank."""
    shown = ("operation", "root", "reduction", "shape", "dtype", "objects")
    shown = [n for n in shown if set(columns[n].values()) - {NONE, ""}]
    lines = {rank: row[6] for rank, row in every.items()}
    if set(lines.values()) != {NONE}:
        columns, shown = {**columns, "line": lines}, [*shown, "line"]
    table: list[tuple] = [("rank", *shown)]
    for rank in every:
        cells = [columns[n][rank] for n in shown]
        table.append((rank, *["" if c == NONE else c for c in cells]))
    return table


def shape(row: list[int]) -> str:
    """Write the shape in a record as Python does."""
    dims = row[8]
    return "" if dims == NONE else str(tuple(row[9 : 9 + min(dims, MAX_DIMS)]))


def reduction(row: list[int]) -> str:
    """Write the reduction in a record, as in "MAX"."""
    return "" if row[3] == NONE else REDUCTIONS[row[3]]


def dtype(row: list[int]) -> str:
    """Write the dtype in a record, without "torch."."""
    return "" if row[4] == NONE else str(DTYPES[row[4]]).removeprefix("torch.")
