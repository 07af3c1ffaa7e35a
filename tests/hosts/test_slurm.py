"""A world whose ranks are the tasks of a job of Slurm's, on two nodes."""

import re

import page
import pytest
from lab import Lab
from session import session
from stories import (
    assert_clean,
    assert_lost_host_comes_back,
    assert_outside,
    assert_replaced,
    assert_works,
    stuck_on_purpose,
    wait_for_end,
)

LAUNCH = f"ranks = {page.line('launch', 1)}"
NOTICED = 12.0  # seconds until ranks of a node that is gone are named
KILL = """\
%%px
import os, time
if dist.get_rank() == 3:
    time.sleep(0.5)
    os.kill(os.getpid(), 9)
dist.barrier()
"""
PROFILE = """\
c = get_config()
c.Cluster.engine_launcher_class = "slurm"
c.SlurmEngineSetLauncher.queue = "{queue}"
"""


@pytest.fixture(scope="module")
def variables(lab: Lab) -> dict[str, str]:
    """Return the variables by which sessions find Slurm, which comes up now."""
    return lab.slurm_up()


def jobs(lab: Lab) -> str:
    """Return what is in the queue."""
    return lab.run("login", f"SLURM_CONF={lab.folder}/slurm.conf squeue -h")


def test_ranks_are_counted_host_by_host(lab, world):
    assert world.value("ranks.hosts") == ["node1", "node1", "node2", "node2"]
    assert world.value("ranks.run(os.getenv, 'SLURM_PROCID')") == ["0", "1", "2", "3"]
    assert len(jobs(lab).splitlines()) == 1
    assert_works(world, 4)


def test_what_listens_beyond_loopback(lab, world):
    assert_outside(lab, world, controller=8)


def test_stuck(world):
    stuck_on_purpose(world, "node2")
    assert_works(world, 4)


def test_rank_is_killed_and_comes_back_within_the_job(lab, world):
    before = world.value("ranks.run(os.getpid)")
    assert "[rank 3] died on node2: signal 9, SIGKILL" in world.failure(KILL)
    assert "rank 3 is a new process" in world.good("ranks.repair()")
    assert len(jobs(lab).splitlines()) == 1
    assert_replaced(world, before, stayed=3)


def test_node_is_lost_and_comes_back(lab, world):
    assert_lost_host_comes_back(lab, world, "srun")


def test_node_is_lost_and_the_others_go_on(lab, world):
    with lab.pulled("node2"):
        said = world.failure("%px dist.barrier()")
        assert world.seconds < NOTICED, world.seconds
        for rank in (2, 3):
            assert f"[rank {rank}] died on node2: not heard any more" in said
        assert "computes" not in said
        assert "2 ranks go on" in world.good("ranks.shrink()")
        assert_works(world, 2)
    world.good("ranks.stop()")
    wait_for_end(lab)
    assert_clean(lab)
    assert jobs(lab) == ""


def test_stop(lab, world):
    assert world.good("ranks.stop()") == ""
    assert_clean(lab)
    assert jobs(lab) == ""


def test_queue_that_takes_too_long(lab, book):
    """Somebody else has all nodes."""
    book.good("if 'ranks' in dir(): ranks.stop()")
    busy = (
        f"SLURM_CONF={lab.folder}/slurm.conf sbatch -o /dev/null -n 4 --wrap 'sleep 60'"
    )
    number = re.search(r"\d+", lab.run("login", busy))[0]
    said = book.failure("launch(4, engines='slurm', start_timeout=5)")
    assert "StartError: 0 of 4 ranks started within 5 s" in said
    assert "is PENDING" in said and "start_timeout" in said
    assert len(jobs(lab).splitlines()) == 1  # not ours
    lab.run("login", f"SLURM_CONF={lab.folder}/slurm.conf scancel {number}")
    assert_clean(lab)


@pytest.mark.parametrize(
    ("prepare", "call", "why"),
    [
        ("import os; os.chdir('/tmp')", "engines='slurm'", "does not see /tmp/.ranks-"),
        ("pass", "profile='wrong'", "Slurm did not take the job: .*partition"),
        ("pass", "engines='pbs'", "qsub, which was not found"),
    ],
)
def test_what_is_refused(lab, book, prepare, call, why):
    lab.profile("wrong", PROFILE.format(queue="nowhere"))
    try:
        book.good(prepare)
        assert re.search(why, book.failure(f"launch(2, {call})"), re.S)
    finally:
        book.good(f"import os; os.chdir({str(lab.folder)!r})")
    assert_clean(lab)
    assert jobs(lab) == ""


def test_profile(lab, book):
    lab.profile("queue", page.BLOCKS["slurm"])
    book.good("ranks = launch(2, profile='queue')")
    book.good("%px import torch, torch.distributed as dist")
    assert_works(book, 2)
    assert lab.run("login", f"SLURM_CONF={lab.folder}/slurm.conf squeue -h -o %P") == (
        "course\n"
    )
    book.good("ranks.stop()")
    assert_clean(lab)


def test_kernel_is_killed(lab, variables):
    with session(lab, lab.folder, **variables) as book:
        book.good(LAUNCH)
        book.good("%%px --noblock\nimport torch.distributed as dist\ndist.barrier()")
        book.kill()
        wait_for_end(lab)
        assert_clean(lab)
        assert jobs(lab) == ""
