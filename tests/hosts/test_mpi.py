"""A world whose ranks mpiexec starts on two hosts."""

import re

import mpi_ranks
import page
import pytest
from lab import Lab
from session import session
from stories import (
    assert_clean,
    assert_lost_host_comes_back,
    assert_replaced,
    assert_works,
    stuck_on_purpose,
    wait_for_end,
)

pytestmark = mpi_ranks.NEEDED
LAUNCH = f"ranks = {page.line('launch', 2)}"
PROXY = "hydra_pmi_proxy"  # MPICH's: at times it outlives an mpiexec that gave up
NOTICED = 12.0  # seconds until ranks of a host that is gone are named
KILL = """\
%%px
import os, time
if dist.get_rank() == 3:
    time.sleep(0.5)
    os.kill(os.getpid(), 9)
dist.barrier()
"""


@pytest.fixture(scope="module")
def variables() -> dict[str, str]:
    """Return what UCX must be told of hosts that share one machine's memory."""
    return {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "eth0"}


def test_ranks_are_those_of_mpi(world):
    assert world.value("ranks.hosts") == ["node1", "node1", "node2", "node2"]
    world.good("%px from mpi4py import MPI; mpi_rank = MPI.COMM_WORLD.rank")
    assert world.value("ranks['mpi_rank']") == [0, 1, 2, 3]
    assert_works(world, 4)


def test_stuck(world):
    stuck_on_purpose(world, "node2")
    assert_works(world, 4)


def test_rank_is_killed_and_a_new_engine_comes_on_its_host(world):
    """MPICH at times ends its neighbour with it."""
    before = world.value("ranks.run(os.getpid)")
    assert "[rank 3] died on node2" in world.failure(KILL)
    said = world.good("ranks.repair()")
    assert re.search("3 (is a new process|are new processes)", said)
    assert_replaced(world, before, stayed=2)


def test_host_is_lost_and_comes_back(lab, world):
    assert_lost_host_comes_back(lab, world, "mpiexec")


def test_host_is_lost_and_the_others_go_on(lab, world):
    with lab.pulled("node2"):
        said = world.failure("%px dist.barrier()")
        assert world.seconds < NOTICED, world.seconds
        for rank in (2, 3):
            assert f"[rank {rank}] died on node2: not heard any more" in said
        assert "2 ranks go on" in world.good("ranks.shrink()")
        assert_works(world, 2)
    world.good("ranks.stop()")
    wait_for_end(lab)
    assert_clean(lab)


def test_stop(lab, world):
    assert world.good("ranks.stop()") == ""
    assert_clean(lab)


def test_host_that_is_not_there(lab, book):
    book.good("if 'ranks' in dir(): ranks.stop()")
    said = book.failure("launch(2, engines='mpi', hosts=['node1:1', 'nowhere:1'])")
    assert "StartError" in said and "Could not resolve hostname nowhere" in said
    wait_for_end(lab)
    assert_clean(lab, but=PROXY)


def test_profile_of_the_page(lab, book):
    lab.profile("mpi", page.BLOCKS["mpi"])
    book.good("ranks = launch(4, profile='mpi')")
    book.good("%px import torch, torch.distributed as dist")
    assert_works(book, 4)
    book.good("ranks.stop()")
    assert_clean(lab)


def test_data_over_mpi(lab, book):
    """Stuck, and a rank that dies: all are new processes, in one MPI world."""
    book.good(f"ranks = {page.line('over MPI', 1)}")
    assert (
        page.BLOCKS["over MPI"].splitlines()[0].startswith('launch(4, backend="mpi")')
    )
    book.good("%px import torch, torch.distributed as dist")
    assert book.value("ranks.backend") == "mpi"
    assert_works(book, 4)
    stuck_on_purpose(book, "node2")
    assert_works(book, 4)
    assert "[rank 3] died on node2" in book.failure(KILL)
    assert "ranks 0–3 are new processes" in book.good("ranks.repair()")
    book.good("%px import torch, torch.distributed as dist")
    assert_works(book, 4)
    book.good("ranks.stop()")
    assert_clean(lab)


def test_kernel_is_killed(lab: Lab, variables):
    with session(lab, lab.folder, **variables) as book:
        book.good(LAUNCH)
        book.good("%%px --noblock\nimport torch.distributed as dist\ndist.barrier()")
        book.kill()
        wait_for_end(lab)
        assert_clean(lab)
