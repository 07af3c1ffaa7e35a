"""notebooks/cheat_sheet.md: every call of the lessons, and what it costs."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch.distributed as dist
from lesson_rules import Notebook

from course_utils import launch
from course_utils.world.ranks import Ranks

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
LESSONS = [Notebook(path) for path in sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))]
SHEET = (NOTEBOOKS / "cheat_sheet.md").read_text()
RANKS, BYTES = 4, 2**20
ONE_PAGE = 40  # lines: printed upright on A4 in 9 points, the sheet takes one page


def rows() -> list[list[str]]:
    """Return the cells of every row of the table, without the headings."""
    table = [line for line in SHEET.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[2:]]


def calls(row: list[str]) -> list[str]:
    """Return the names of the calls that a row is about."""
    return re.findall(r"\b([a-z][a-z_0-9]*)\(", row[0])


def used(lesson: Notebook) -> set[str]:
    """Return what a lesson's cells call to move data or make groups."""
    text = "\n".join(cell.source for cell in lesson.code)
    names = set(re.findall(r"\bdist\.([a-z_]+)(?:\.unguarded)?\(", text))
    known = {name for name in names if hasattr(dist, name)}
    return {name for name in known if not name.startswith(("get_", "is_"))}


@pytest.mark.unit
def test_every_call_of_a_lesson_has_a_row():
    listed = {name for row in rows() for name in calls(row)}
    missing = {lesson.number: used(lesson) - listed for lesson in LESSONS}
    assert not any(missing.values()), missing


@pytest.mark.unit
def test_a_row_names_a_lesson_that_has_the_call():
    texts = {
        lesson.number: "\n".join(cell.source for cell in lesson.cells)
        for lesson in LESSONS
    }
    for row in rows():
        assert calls(row)
        for name in calls(row):
            assert re.search(rf"\b{name}\b", texts[int(row[5])]), row
            assert hasattr(dist, name)


@pytest.mark.unit
def test_the_sheet_fits_one_page():
    assert len(SHEET.splitlines()) <= ONE_PAGE
    assert max(len(line) for line in SHEET.splitlines()) <= 190


@pytest.fixture(scope="module")
def unguarded() -> Iterator[Ranks]:
    """Return four ranks of which only the calls themselves send anything."""
    with launch(RANKS, guard=False) as world:
        yield world


def received(name: str, size: int) -> int:
    """Make one call on this rank; return the bytes that came in meanwhile."""
    import torch
    import torch.distributed as dist

    from course_utils.measure import sockets, traffic

    rank, world = dist.get_rank(), dist.get_world_size()
    shard = torch.zeros(size, dtype=torch.uint8)
    several = [torch.empty_like(shard) for _ in range(world)]
    on_root = several if rank == 0 else None

    def two(send, receive):
        work = send(shard, 1) if rank == 0 else None
        work = receive(several[0], 0) if rank == 1 else work
        if hasattr(work, "wait"):
            work.wait()

    calls = {
        "all_gather": lambda: dist.all_gather(several, shard),
        "all_gather_single": lambda: dist.all_gather_single(torch.cat(several), shard),
        "send": lambda: two(dist.send, dist.recv),
        "isend": lambda: two(dist.isend, dist.irecv),
        "gather": lambda: dist.gather(shard, on_root),
        "scatter": lambda: dist.scatter(shard, on_root),
        "broadcast": lambda: dist.broadcast(shard, src=0),
        "all_reduce": lambda: dist.all_reduce(shard),
        "all_to_all_single": lambda: dist.all_to_all_single(several[0], shard),
    }

    def so_far() -> int:
        dist.barrier()
        return sum(traffic(fd)[1] for fd in sockets())

    calls[name]()  # connects what was not connected
    before = so_far()
    calls[name]()
    return so_far() - before


PRICED = [(calls(row)[0], row[3]) for row in rows() if row[3].endswith("S")]


@pytest.mark.parametrize(("name", "formula"), PRICED)
def test_a_call_receives_what_the_sheet_says(unguarded, name, formula):
    python = formula.replace("·", "*").replace("−", "-")
    expected = eval(python, {"W": RANKS, "S": BYTES})
    came = sum(unguarded.run(received, name, BYTES))
    assert expected <= came < 1.05 * expected
