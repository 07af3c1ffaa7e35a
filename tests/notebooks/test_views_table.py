"""The table of lesson 4: which calls copy views, misread them, or refuse them."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from lesson_rules import Notebook

from course_utils import launch
from course_utils.world.ranks import Ranks

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
LESSON = Notebook(next(NOTEBOOKS.glob("04_*.ipynb")))
ROW = re.compile(r"^\| (`\w+\(.*\)`) \|.*\| (copied|misread|refused) \|$", re.M)
SAID = {
    name: views
    for calls, views in ROW.findall(LESSON.prose)
    for name in re.findall(r"`(\w+)\(", calls)
}


@pytest.fixture(scope="module")
def unguarded() -> Iterator[Ranks]:
    """Return three ranks with torch's own functions."""
    with launch(3, guard=False) as world:
        yield world


def outcome(name: str, transposed: str) -> str:
    """Make one call, with transposed views where it reads or where it writes.

    The arguments stand in the order of the table.
    """
    import torch
    import torch.distributed as dist

    rank, world = dist.get_rank(), dist.get_world_size()

    def values(of: int) -> torch.Tensor:
        return (100 * of + torch.arange(6)).view(2, 3)

    def source(of: int) -> torch.Tensor:
        plain = values(of)
        return plain.T.contiguous().T if transposed == "read" else plain

    def room(rows: int = 2) -> torch.Tensor:
        if transposed == "written":
            return torch.full((3, rows), -1).T
        return torch.full((rows, 3), -1)

    def all_gather():
        buffers = [room() for _ in range(world)]
        dist.all_gather(buffers, source(rank))
        return torch.cat(buffers), torch.cat([values(r) for r in range(world)])

    def all_gather_single():
        full = room(2 * world)
        dist.all_gather_single(full, source(rank))
        return full, torch.cat([values(r) for r in range(world)])

    def gather():
        buffers = [room() for _ in range(world)] if rank == 0 else None
        dist.gather(source(rank), buffers)
        if rank:
            return room(), room()
        return torch.cat(buffers), torch.cat([values(r) for r in range(world)])

    def scatter():
        chunks = [source(r) for r in range(world)] if rank == 0 else None
        piece = room()
        dist.scatter(piece, chunks)
        return piece, values(rank)

    def broadcast():
        tensor = source(0) if rank == 0 else room()
        dist.broadcast(tensor, src=0)
        return tensor, values(0)

    def send():
        tensor = room() if rank == 1 else source(0)
        if rank == 0:
            dist.send(tensor, 1)
        elif rank == 1:
            dist.recv(tensor, 0)
        return tensor, values(0)

    calls = [all_gather, all_gather_single, gather, scatter, broadcast, send]
    made = {call.__name__: call for call in calls} | {"recv": send}
    try:
        got, wanted = made[name]()
    except RuntimeError as error:
        if rank == 0:  # the other side still waits
            dist.send(values(0), 1)
        else:
            dist.recv(values(0), 0)
        return "refused" if "contiguous" in str(error) else str(error)
    return "copied" if torch.equal(got, wanted) else "misread"


@pytest.mark.parametrize("name", SAID)
def test_views_fare_as_the_lesson_says(unguarded, name):
    sides = {"send": ["read"], "recv": ["written"]}.get(name, ["read", "written"])
    for transposed in sides:
        outcomes = set(unguarded.run(outcome, name, transposed))
        assert outcomes - {"copied"} == {SAID[name]} - {"copied"}, transposed


@pytest.mark.unit
def test_the_table_was_found():
    assert len(SAID) == 7 and set(SAID.values()) == {"copied", "misread", "refused"}
