"""What this rank is about to do in a collective, as whole numbers.

The numbers of all ranks are exchanged and compared, see `comparison`. The line that
makes the call is asked for only where they differ.
"""

from __future__ import annotations

import sys
from array import array
from typing import Any, NamedTuple

import torch
from torch import distributed as dist

from course_utils.guard import arguments as of
from course_utils.guard.arguments import NONE, OPERATIONS
from course_utils.guard.layout import MAX_DIMS, order
from course_utils.guard.pieces import balance, group_rank, pieces
from course_utils.guard.problems import plain_problem, presence_problem, problem
from course_utils.text import file_named, is_cell, is_own

DTYPES = sorted(
    {v for v in vars(torch).values() if isinstance(v, torch.dtype)}, key=str
)
REDUCTIONS = list(dist.ReduceOp.RedOpType.__members__)
# What is wrong with the call of this rank: something; something that torch says plainly
# by itself; something, if its root is the right one.
ALONE, PLAIN, OF_ROOT = 1, 2, 3


class Record(NamedTuple):
    """What one rank is about to do."""

    wrong: int = 0  # one of the above
    operation: int = NONE
    root: int = NONE
    reduction: int = NONE
    dtype: int = NONE
    objects: int = NONE
    order: int = NONE  # in which the elements lie in memory, see `layout`
    groups: int = NONE  # that this rank has made with all others
    balance: int = 0  # of what it sends and expects, see `pieces`
    dims: int = NONE
    shape: tuple[int, ...] = ()
    line: int = NONE  # of the cell, or of a file; not among the numbers, as the next
    file: str = ""


SHAPE = Record._fields.index("shape")


def record(
    name: str, given: dict[str, Any], ranks: list[int], misfit: str = ""
) -> tuple[bytes, str]:
    """Write what this rank is about to do as whole numbers.

    misfit: why the arguments do not fit the parameters of the collective, if so.
    Returns the numbers, and words for what this rank does wrong, "" for nothing.
    """
    about = Record(operation=OPERATIONS.index(name))
    if misfit:
        wrong = f"called it with arguments that do not fit: {misfit}"
        return numbers(about._replace(wrong=PLAIN)), wrong
    try:
        wrong = problem(name, given, ranks)
        about = about._replace(root=of.root(given, ranks), groups=groups(ranks))
        if wrong:
            return numbers(about._replace(wrong=ALONE)), wrong
        wrong = plain_problem(name, given, ranks)
        if wrong:
            return numbers(about._replace(wrong=PLAIN)), wrong
        wrong = presence_problem(name, given, ranks)
        return described(about, name, given, ranks, OF_ROOT if wrong else 0), wrong
    except Exception as error:  # the other ranks have to hear of it
        wrong = f"passed what could not be described: {type(error).__name__}: {error}"
        return numbers(about._replace(wrong=ALONE)), wrong


def described(
    about: Record, name: str, given: dict[str, Any], ranks: list[int], wrong: int
) -> bytes:
    """Write a call that is right as far as this rank can tell."""
    tensor = given.get(of.TENSOR[name] or "")
    about = about._replace(wrong=wrong, reduction=reduction_number(given.get("op")))
    if name == "broadcast_object_list":
        about = about._replace(objects=len(given["object_list"]))
    if name in of.EXCHANGES:
        moved = balance(*pieces(name, given, len(ranks)), group_rank(ranks))
        about = about._replace(balance=moved)
    if tensor is None:
        return numbers(about)
    about = about._replace(
        dtype=DTYPES.index(tensor.dtype),
        order=order(tensor) if name in of.RAW else NONE,
        dims=tensor.dim(),
        shape=tuple(tensor.shape),
    )
    return numbers(about)


def numbers(about: Record) -> bytes:
    """Write a record as numbers of 64 bits, always as many; see `read`.

    A shape of more than MAX_DIMS sizes ends with a checksum of those left out.
    """
    shape = [*about.shape]
    if len(shape) > MAX_DIMS:
        shape[MAX_DIMS - 1 :] = [hash(tuple(shape[MAX_DIMS - 1 :])) % 2**32]
    shape += [NONE] * (MAX_DIMS - len(shape))
    return array("q", [*about[:SHAPE], *shape]).tobytes()


def read(row: bytes) -> Record:
    """Return the record that numbers tell."""
    *about, dims = (found := array("q", row).tolist())[:SHAPE]
    return Record(*about, dims, tuple(found[SHAPE:][: max(dims, 0)]))


def groups(ranks: list[int]) -> int:
    """Return how many groups this rank has made; NONE unless all ranks are asked."""
    if len(ranks) != dist.get_world_size():
        return NONE
    return dist.distributed_c10d.get_pg_count()


def reduction_number(op: Any) -> int:
    """Return the number of a reduction such as SUM, or NONE."""
    name = str(getattr(op, "op", op)).rpartition(".")[2].partition(":")[0]
    return REDUCTIONS.index(name) if name in REDUCTIONS else NONE


def caller() -> tuple[int, str]:
    """Return the line that makes the call: of the cell, or of the user's own file.

    And the name of that file, "" for a cell. NONE and "" where there is neither.
    """
    line, named, frame = NONE, "", sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if is_cell(name):
            line, named = frame.f_lineno, ""
        elif line == NONE and is_own(name):
            line, named = frame.f_lineno, file_named(name)
        frame = frame.f_back
    return line, named
