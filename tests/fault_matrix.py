"""Let each fault of `fault_rows` happen, and check what comes of it."""

import pytest
from cells import Cells, mended, prepare
from fault_rows import ANEW, ROWS, Row
from IPython.utils.capture import capture_output

from course_utils.world.ranks import Ranks

ELSEWHERE = """\
def halve(n):
    return 1 / n
def meet_elsewhere():
    dist.barrier()"""


def cases(guard: bool) -> list:
    """Return the sizes of worlds and the faults that are tried there, by size."""
    return [
        pytest.param(size, row, id=f"{size} ranks-{row.name}")
        for size in (2, 3, 4)
        for row in ROWS
        if size in row.sizes and guard in row.guard
        if guard or size == 3 or row.guard == (False,)
    ]


def happen(world: Ranks, cells: Cells, row: Row) -> None:
    """Let a fault happen; check its report, and that the next cell works."""
    size = len(world)
    prepare(cells)
    cells.good(ELSEWHERE)
    said, error = cells.run(row.cell, row.targets)
    if row.said is not None:
        assert said.startswith(f"{row.said}\n")
    assert ("" if error is None else str(error)) == row.expected(size)
    if row.dies:
        with capture_output() as done:
            world.repair()
        told = " ".join(done.stdout.split())  # long lines are folded
        assert told == ANEW.format(f"rank {row.lost}")
    mended(cells, world, [] if row.lost is None else [row.lost])
