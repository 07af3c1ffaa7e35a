"""Every fault ends with its report, and the next cell works.

One world takes all the faults of its size, one after the other: what a fault leaves
behind would show in the rows that follow.
"""

from collections.abc import Callable, Iterator

import pytest
from cells import Cells, mended, prepare
from fault_rows import ANEW, PATIENCE, ROWS, Row
from IPython.utils.capture import capture_output

from course_utils import launch
from course_utils.world.ranks import Ranks

WORLDS = [(2, True), (2, False), (3, True), (3, False), (4, True), (4, False)]
CASES = [
    pytest.param(
        size, guard, row, id=f"{size} ranks {'guarded' if guard else 'bare'}-{row.name}"
    )
    for size, guard in WORLDS  # in this order, each world is launched once
    for row in ROWS
    if size in row.sizes and guard in row.guard
    if guard or size == 3 or row.guard == (False,)
]
ELSEWHERE = """\
def halve(n):
    return 1 / n
def meet_elsewhere():
    dist.barrier()"""


@pytest.fixture(scope="module")
def world_of(cells: Cells) -> Iterator[Callable[[int, bool], Ranks]]:
    """Return a function that returns the world of a size, launched when it changes."""
    running: dict[tuple[int, bool], Ranks] = {}

    def get(size: int, guard: bool) -> Ranks:
        if (size, guard) not in running:
            running.clear()
            running[size, guard] = launch(size, guard=guard, patience=PATIENCE)
        return running[size, guard]

    yield get
    for world in running.values():
        world.stop()


@pytest.mark.parametrize(("size", "guard", "row"), CASES)
def test_fault(world_of, cells: Cells, size: int, guard: bool, row: Row):
    world = world_of(size, guard)
    for _ in range(row.times if size == 3 and guard else 1):
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
