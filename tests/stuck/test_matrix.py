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


class TestGuarded:
    @pytest.mark.parametrize(("size", "row"), cases(guard=True))
    def test_fault(self, world_of, cells: Cells, size: int, row: Row):
        happen(world_of(size, True), cells, row)

    @pytest.mark.soak
    @pytest.mark.parametrize(("size", "row"), cases(guard=True))
    def test_fault_again(self, world_of, cells: Cells, size: int, row: Row):
        for _ in range(row.times):
            happen(world_of(size, True), cells, row)


class TestBare:
    @pytest.mark.parametrize(("size", "row"), cases(guard=False))
    def test_fault(self, world_of, cells: Cells, size: int, row: Row):
        happen(world_of(size, False), cells, row)
