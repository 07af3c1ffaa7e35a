"""A notebook's world over MPI: stuck, interrupted, killed, and brought back."""

import mpi_ranks
import pytest
from cells import everyone, mended, prepare
from fault_rows import PATIENCE
from IPython.utils.capture import capture_output

from course_utils import launch

pytestmark = mpi_ranks.NEEDED
UP = "a new process group is up"
KILL = """\
if rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
dist.barrier()"""
TRAIN = """\
from torch.nn.parallel import DistributedDataParallel
model = DistributedDataParallel(torch.nn.Linear(2, 1))
if rank != 3:
    model(torch.ones(1, 2)).sum().backward()"""


@pytest.fixture(scope="module")
def world(cells):
    """Return a world over MPI that the product itself repairs."""
    with launch(4, backend="mpi", patience=PATIENCE) as ranks:
        prepare(cells)
        yield ranks


def test_its_ranks_are_in_one_world_of_mpi(world, cells):
    assert repr(world) == "4 ranks · mpi · cpu"
    assert cells.good("dist.get_backend()") == f"{everyone(4)} 'mpi4py'"
    cells.good("from mpi4py import MPI\nmpi_size = MPI.COMM_WORLD.size")
    assert world["mpi_size"] == [4] * 4


def test_sub_groups(world, cells):
    cells.good("pair = dist.new_group([1, 3])")
    said = cells.good("dist.all_reduce(t := torch.ones(1), group=pair)\nt", "1,3")
    assert said == "[ranks 1, 3] tensor([2.])"
    said = cells.good("over_gloo = dist.new_group(backend='gloo')\ndist.barrier()")
    assert said == ""


def test_guard(world, cells):
    text = cells.report("dist.all_reduce(torch.ones(2 + (rank == 3)))")
    assert "all_reduce, so it did not run" in text and "repaired" not in text
    mended(cells, world, [])


@pytest.mark.parametrize(
    ("cell", "waits"),
    [
        ("if rank != 2:\n    dist.all_reduce(torch.ones(3))", "all_reduce at line 3"),
        (
            "if rank != 2:\n    w = dist.irecv(x, 2)\n    w.wait()",
            "w.wait at line 4",
        ),
        ("if rank != 2:\n    dist.recv(x, 2)", "recv(src=2) at line 3"),
        (TRAIN.replace("3", "2"), "backward at line 5"),
    ],
    ids=["collective", "async work", "message", "backward"],
)
def test_stuck(world, cells, cell, waits):
    text = cells.report(cell)
    assert f"[ranks 0–1, 3] wait in {waits} for" in text
    assert UP in text and "variables are kept" in text
    mended(cells, world, [])


def test_stuck_in_a_group_of_gloo(world, cells):
    cells.good("over_gloo = dist.new_group(backend='gloo')")
    text = cells.report("if rank:\n    dist.barrier(group=over_gloo)")
    assert "stuck: ranks 1–3 wait for rank 0" in text and UP in text
    mended(cells, world, [])


@pytest.mark.soak
def test_interrupted(world, cells):
    text = cells.interrupted("dist.barrier() if rank else time.sleep(60)", after=1)
    assert "[ranks 1–3] waited in barrier" in text or "wait in barrier" in text
    assert UP in text
    mended(cells, world, [])


@pytest.mark.soak
def test_rank_is_killed_and_all_are_new(world, cells):
    before = dict(world.pids)
    assert "[rank 1] died" in cells.report(KILL)
    with capture_output() as said:
        world.repair()
    assert "ranks 0–3 are new processes" in " ".join(said.stdout.split())
    assert not set(world.pids.values()) & set(before.values())
    prepare(cells)
    mended(cells, world, [])
    cells.good("from mpi4py import MPI\nmpi_size = MPI.COMM_WORLD.size")
    assert world["mpi_size"] == [4] * 4
