"""In what the records of the ranks differ, as a table."""

from __future__ import annotations

from array import array
from collections import Counter
from typing import Any

from torch import distributed as dist

from course_utils.guard.arguments import NONE, OPERATIONS
from course_utils.guard.layout import strides
from course_utils.guard.pieces import MODULUS
from course_utils.guard.record import DTYPES, MAX_DIMS, REDUCTIONS, Record
from course_utils.guard.words import short
from course_utils.text import ROWS, indent, rank_table, these_ranks

SHOWN = ("operation", "root", "reduction", "shape", "dtype", "objects")
LAYOUT = "layout in memory"
BALANCE = Record._fields.index("balance")
REORDER = "pass .contiguous() on every rank, and copy the result back where you need it"
UNGROUPED = (
    "{those} called new_group and {others} did not; every rank of the world must call "
    "it, members or not"
)


def agreed(rows: list[bytes]) -> bool:
    """Tell whether nothing is wrong, from the records of all ranks."""
    every = [array("q", row).tolist() for row in rows]
    if any(row[0] for row in every) or sum(row[BALANCE] for row in every) % MODULUS:
        return False
    return len({(*row[:BALANCE], *row[BALANCE + 1 :]) for row in every}) == 1


def differing(every: dict[int, Record]) -> dict[str, dict[int, Any]]:
    """Return the columns in which the records differ, the most telling ones."""
    found = {
        name: column
        for name, column in columns(every).items()
        if len(set(column.values())) > 1
    }
    if "operation" in found:
        return {"operation": found["operation"]}
    if "shape" in found:
        found.pop(LAYOUT, None)
    return found


def columns(every: dict[int, Record]) -> dict[str, dict[int, Any]]:
    """Return what is compared, by its name, for each rank."""
    return {
        "operation": {rank: OPERATIONS[one.operation] for rank, one in every.items()},
        "root": {rank: one.root for rank, one in every.items()},
        "reduction": {rank: reduction(one) for rank, one in every.items()},
        "shape": {rank: shape(one) for rank, one in every.items()},
        "dtype": {rank: dtype(one) for rank, one in every.items()},
        "objects": {rank: one.objects for rank, one in every.items()},
        LAYOUT: {rank: one.order for rank, one in every.items()},
    }


def disagreement(every: dict[int, Record], differ: dict[str, dict[int, Any]]) -> str:
    """Say in which columns the ranks differ, and show them."""
    what = " and the ".join(differ)
    calls = {OPERATIONS[one.operation] for one in every.values()}
    where = calls.pop() if len(calls) == 1 else "a collective"
    lines = [f"the ranks disagree on the {what} of {where}, so it did not run"]
    lines += indent(table(every, LAYOUT in differ))
    if LAYOUT in differ:
        lines.append(reordered(differ[LAYOUT]))
    return "\n".join(lines)


def reordered(orders: dict[int, int]) -> str:
    """Say which ranks have their elements in another order, and what to do."""
    usual, number = Counter(orders.values()).most_common(1)[0]
    if 2 * number <= len(orders):
        usual = 0
    odd = [rank for rank, order in orders.items() if order != usual]
    return f"{these_ranks(odd)}: the elements lie in another order; {REORDER}"


def table(every: dict[int, Record], laid_out: bool = False) -> str:
    """Return a table of the records, by rank.

    laid_out: show the strides, too, with a row less, for a sentence follows.
    """
    found = columns(every)
    shown = [n for n in SHOWN if set(found[n].values()) - {NONE, ""}]
    if laid_out:
        found["strides"] = {
            r: strides(one.order, one.shape) for r, one in every.items()
        }
        shown.append("strides")
    place = line_heading(every)
    found[place] = {rank: one.line for rank, one in every.items()}
    if set(found[place].values()) != {NONE}:
        shown.append(place)
    cells = {
        rank: tuple("" if (c := found[n][rank]) == NONE else c for n in shown)
        for rank in every
    }
    return rank_table(shown, cells, most=ROWS - laid_out)


def line_heading(every: dict[int, Record]) -> str:
    """Return what stands above the lines: with the file, if that is one."""
    file, *others = {one.file for one in every.values()}
    return f"line of {file}" if file and not others else "line"


def shape(one: Record) -> str:
    """Write the shape in a record as Python does."""
    if one.dims <= MAX_DIMS:
        return "" if one.dims == NONE else str(tuple(one.shape))
    *first, rest = one.shape
    sizes = ", ".join(map(str, first))
    return f"({sizes}, … {one.dims} dims, #{rest:08x})"


def reduction(one: Record) -> str:
    """Write the reduction in a record, as in "MAX"."""
    return "" if one.reduction == NONE else REDUCTIONS[one.reduction]


def dtype(one: Record) -> str:
    """Write the dtype in a record, without "torch."."""
    return "" if one.dtype == NONE else short(DTYPES[one.dtype])


def ungrouped(every: dict[int, Record]) -> str:
    """Say which ranks did not call new_group, which others called; "" for none.

    torch names a group after the number of calls, so groups made later would not
    find each other. The ranks count from the highest number on, now that it is told.
    """
    most = max(one.groups for one in every.values())
    those = [rank for rank, one in every.items() if one.groups == most]
    others = [rank for rank, one in every.items() if one.groups != most]
    if not others:
        return ""
    dist.distributed_c10d._world.group_count = most
    said = UNGROUPED.format(those=these_ranks(those), others=these_ranks(others))
    return f"{OPERATIONS[next(iter(every.values())).operation]} did not run: {said}"
