"""A world whose ranks mpiexec starts on two hosts."""

import importlib.util
import re

import pytest
from lab import Lab
from session import session
from stories import (
    assert_clean,
    assert_replaced,
    assert_works,
    stuck_on_purpose,
    wait_for_end,
)

from course_utils.engines.machine import find_mpiexec

pytestmark = pytest.mark.skipif(
    find_mpiexec() is None or importlib.util.find_spec("mpi4py") is None,
    reason="no mpiexec or no mpi4py: pip install -r requirements-mpi.txt",
)
LAUNCH = "ranks = launch(4, engines='mpi', hosts=['node1:2', 'node2:2'])"
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
    return {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "fab0"}


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
    assert_clean(lab)


def test_kernel_is_killed(lab: Lab, variables):
    with session(lab, lab.folder, **variables) as book:
        book.good(LAUNCH)
        book.good("%%px --noblock\nimport torch.distributed as dist\ndist.barrier()")
        book.kill()
        wait_for_end(lab)
        assert_clean(lab)
