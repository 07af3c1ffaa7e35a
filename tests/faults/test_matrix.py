"""Every fault ends with its report, and the next cell works.

One world takes all the faults of its size, one after the other: what a fault leaves
behind would show in the rows that follow.
"""

import pytest
from faults.cells import Cells, mended, prepare
from faults.rows import ANEW, ROWS, Row
from IPython.utils.capture import capture_output

from course_utils.ranks import Ranks

WORLDS = [(2, True), (2, False), (3, True), (3, False), (4, True), (4, False)]
CASES = [
    pytest.param(
        (size, guard),
        row,
        id=f"{size} ranks {'guarded' if guard else 'bare'}-{row.name}",
    )
    for size, guard in WORLDS  # each world is launched once
    for row in ROWS
    if size in row.sizes and guard in row.guard
    if guard or size == 3 or row.guard == (False,)
]
ELSEWHERE = """\
def halve(n):
    return 1 / n
def meet_elsewhere():
    dist.barrier()"""


@pytest.mark.parametrize(("world", "row"), CASES, indirect=["world"])
def test_fault(world: Ranks, cells: Cells, row: Row):
    size = len(world)
    for _ in range(row.times if size == 3 and world.guard else 1):
        cells.good(ELSEWHERE)
        said, error = cells.run(row.cell, row.targets)
        if row.said is not None:
            assert said.startswith(f"{row.said}\n")
        assert ("" if error is None else str(error)) == row.expected(size)
        if row.dies:
            with capture_output() as done:
                world.repair()
            assert done.stdout == f"{ANEW.format(f'rank {row.lost}')}\n"
        mended(cells, world, [] if row.lost is None else [row.lost])
        if row.lost is not None:
            prepare(cells)
