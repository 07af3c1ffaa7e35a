"""Exchange what the ranks are about to do, and say where they disagree."""

from __future__ import annotations

from typing import Any

import torch
from torch import distributed as dist

from course_utils.guard.record import (
    DTYPES,
    MAX_DIMS,
    NONE,
    OPERATIONS,
    PROBLEMS,
    REDUCTIONS,
    record,
)
from course_utils.text import aligned, indent, these_ranks


class CollectiveError(RuntimeError):
    """The ranks disagree on a collective, or one of them calls it wrongly."""


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
