"""A world on two hosts that are reached over ssh."""

import re
import time

import page
import pytest
from lab import Lab
from session import session
from stories import (
    assert_clean,
    assert_outside,
    assert_replaced,
    assert_works,
    stuck_on_purpose,
    wait_for_end,
)

LAUNCH = f"ranks = {page.line('launch', 0)}"
KILL = """\
%%px
import os, time
if dist.get_rank() == 3:
    time.sleep(0.5)
    os.kill(os.getpid(), 9)
dist.barrier()
"""
NOTICED = 12.0  # seconds until a host that is gone is named
PROFILE = """\
c = get_config()
c.Cluster.engine_launcher_class = "ssh"
{lines}
"""


def test_ranks_are_counted_host_by_host(world):
    hosts = ["node1", "node1", "node2", "node2"]
    assert world.value("[row[2] for row in ranks.where().rows]") == hosts
    assert_works(world, 4)


def test_what_listens_beyond_loopback(lab, world):
    assert_outside(lab, world, controller=8)


def test_stuck(world):
    stuck_on_purpose(world, "node2")
    assert_works(world, 4)


def test_rank_is_killed_and_comes_back_on_its_host(world):
    before = world.value("ranks.run(os.getpid)")
    said = world.failure(KILL)
    assert "[rank 3] died on node2: signal 9, SIGKILL" in said
    assert "last words" not in said
    assert "rank 3 is a new process" in world.good("ranks.repair()")
    assert_replaced(world, before, stayed=3)


def test_host_is_lost_and_comes_back(lab, world):
    with lab.pulled("node2"):
        said = world.failure("%px dist.barrier()")
        assert world.seconds < NOTICED, world.seconds
        assert "[ranks 2–3] lost: host node2 is out of reach" in said
        assert "computes" not in said
        assert "host node2 is not there" in world.failure("ranks.repair()")
    assert "ranks 2–3 are new processes" in world.good("ranks.repair()")
    world.good("%px import torch, torch.distributed as dist")
    assert_works(world, 4)


def test_host_is_lost_and_the_others_go_on(lab, world):
    with lab.pulled("node2"):
        world.failure("%px dist.barrier()")
        assert "2 ranks go on" in world.good("ranks.shrink()")
        assert_works(world, 2)
        said = world.good("ranks.stop()")
        assert "out of reach: node2" in said
        assert not lab.processes("node1")
    wait_for_end(lab)
    assert_clean(lab)


def test_stop(lab, world):
    assert world.good("ranks.stop()") == ""
    assert_clean(lab)


@pytest.mark.parametrize(
    ("call", "why"),
    [
        ("launch(2, engines='ssh')", "ValueError: hosts: engines='ssh' needs names"),
        ("launch(4, hosts=['node1:2'])", "ValueError: hosts: .* have room for 2 ranks"),
        ("launch(2, hosts=['-oX=1:2'])", "ValueError: hosts: expected names"),
        ("launch(2, hosts=['nowhere:2'])", "StartError: .*Could not resolve hostname"),
        ("launch(1, profile='nobody')", "StartError: profile: there is no profile"),
    ],
)
def test_refused_at_once(lab, book, call, why):
    book.good("if 'ranks' in dir(): ranks.stop()")
    started = time.monotonic()
    assert re.search(why, book.failure(call), re.S)
    assert time.monotonic() - started < NOTICED
    assert_clean(lab)


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ("", "lists no hosts"),
        ("c.SSHEngineSetLauncher.engines = {'node1': 1, 'node2': {'n': 1}}", ""),
        (
            "c.SSHEngineSetLauncher.engines = {'node1': 2}\n"
            "c.Cluster.controller_ip = '*'",
            "",
        ),
        (
            "c.SSHEngineSetLauncher.engines = {'node1': 2}\n"
            "c.SSHEngineSetLauncher.remote_python = '/nowhere/python'",
            "/nowhere/python: (No such file|not found)",
        ),
    ],
)
def test_profile(lab, book, lines, why):
    folder = lab.profile("nodes", PROFILE.format(lines=lines))
    if why:
        said = book.failure("ranks = launch(2, profile='nodes')")
        assert re.search(why, said, re.S)
    else:
        book.good("ranks = launch(2, profile='nodes')")
        book.good("%px import torch, torch.distributed as dist")
        assert_works(book, 2)
        book.good("ranks.stop()")
    assert lab.files(folder) == ["ipcluster_config.py"]  # nothing was added
    assert_clean(lab)


def test_profile_of_the_page(lab, book):
    lab.profile("nodes", page.BLOCKS["ssh"])
    book.good("ranks = launch(4, profile='nodes')")
    book.good("%px import torch, torch.distributed as dist")
    assert_works(book, 4)
    book.good("ranks.stop()")


def test_kernel_is_killed(lab: Lab, tmp_path):
    with session(lab, lab.folder) as book:
        book.good(LAUNCH)
        book.good("%%px --noblock\nimport torch.distributed as dist\ndist.barrier()")
        book.kill()
        wait_for_end(lab)
        assert_clean(lab)
