"""Nothing stays behind, however a world, its kernel or its fork parent ends."""

import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import worlds
from jupyter_core.utils import run_sync

from course_utils.engines import machine

pytestmark = pytest.mark.skipif(
    not machine.can_fork(), reason="ranks are forked on Linux only"
)
LAUNCH = "from course_utils import launch\nranks = launch(2)\nranks"
KILLED_START = """
import time
from course_utils import launch
print("starting", flush=True)
ranks = launch(2)
print("up", flush=True)
time.sleep(1000)
"""
MOMENTS = [  # seconds after the start
    *(0.0, 0.5, 1.4),
    *[pytest.param(after, marks=pytest.mark.soak) for after in (0.05, 0.2, 0.9, 2.0)],
]


class World:
    """A kernel with a world, and every process of both."""

    def __init__(self, book: worlds.Notebook, folder: Path) -> None:
        self.book, self.folder = book, folder
        self.kernel = psutil.Process(book.km.provisioner.pid)
        assert book.good(LAUNCH) == "2 ranks · gloo · cpu\n"
        self.processes = worlds.family(self.kernel.pid)
        self.ranks = eval(book.good("[row[1] for row in ranks.where().rows]"))
        assert {p.pid for p in self.processes} >= set(self.ranks)
        assert len(self.processes) >= 4  # their parent, the controller, 2 ranks
        assert self.left_on_disk()

    def left_on_disk(self) -> list[Path]:
        """Return the private folders of worlds that are still there."""
        return list(self.folder.glob("ranks-*"))

    def assert_gone(self) -> None:
        """Assert that every process of the world ends in time, and its folder."""
        left = worlds.left_after(self.processes)
        assert not left, [worlds.describe(process) for process in left]
        assert not worlds.wait_for(self.left_on_disk, 0.5), "its folder is left"


@pytest.fixture
def world(folder: Path) -> Iterator[World]:
    """Return a kernel in which a world of two ranks runs."""
    with worlds.notebook(folder) as book:
        yield World(book, folder)


def test_stop(world):
    assert world.book.good("ranks.stop()\nranks") == "2 ranks · stopped\n"
    world.assert_gone()
    assert world.kernel.is_running()


def test_launch_again(world):
    """Only the process that forked the old world is left: it forks the new one."""
    [parent] = [p for p in world.processes if p.ppid() == world.kernel.pid]
    world.book.good("ranks = launch(1)")
    left = worlds.left_after([p for p in world.processes if p != parent])
    assert not left, [worlds.describe(process) for process in left]
    assert len(world.left_on_disk()) == 1


def test_kernel_restart(world):
    run_sync(world.book.km.restart_kernel)()
    world.assert_gone()


def test_kernel_restart_while_ranks_are_stuck(world):
    """A rank that waits inside gloo runs no signal handler."""
    world.book.good(
        "%%px --noblock\n"
        "from torch import distributed as dist\n"
        "dist.barrier() if dist.get_rank() else None"
    )
    run_sync(world.book.km.restart_kernel)(now=True)
    world.assert_gone()


def test_kernel_shutdown(world):
    run_sync(world.book.km.shutdown_kernel)()
    world.assert_gone()


@pytest.mark.parametrize("kill", [signal.SIGTERM, signal.SIGKILL, signal.SIGHUP])
def test_kernel_is_killed(world, kill):
    world.kernel.send_signal(kill)
    world.assert_gone()


def test_kernel_is_killed_while_ranks_are_stuck(world):
    world.book.good(
        "%%px --noblock\n"
        "from torch import distributed as dist\n"
        "dist.barrier() if dist.get_rank() else None"
    )
    world.kernel.kill()
    world.assert_gone()


def test_fork_parent_is_killed(world):
    [parent] = [p for p in world.processes if p.ppid() == world.kernel.pid]
    parent.kill()
    left = worlds.left_after(world.processes)
    assert not left, [worlds.describe(process) for process in left]
    # only the folder may be left, until stop() or the next launch
    world.book.good("ranks.stop()")
    world.assert_gone()
    assert world.book.good("ranks = launch(1)\nranks") == "1 rank · gloo · cpu\n"


@pytest.mark.parametrize("moment", MOMENTS)
def test_client_is_killed_during_the_start(folder, moment):
    env = worlds.environment(folder)
    process = worlds.script(KILLED_START, env)
    try:
        assert process.stdout.readline() == "starting\n"
        assert worlds.wait_for(lambda: list(folder.glob("ranks-*")))
        time.sleep(moment)
        seen = worlds.marked(env[worlds.MARK])
        process.kill()
        process.wait(worlds.LIMIT)
        assert worlds.left_of(env[worlds.MARK]) == []
        assert not worlds.left_after(seen)
    finally:
        worlds.end(env[worlds.MARK])
        process.stdout.close()


def test_interrupt_during_the_start(folder):
    """Ctrl-C, or the stop button, while launch() runs."""
    env = worlds.environment(folder)
    process = worlds.script(KILLED_START, env, stderr=subprocess.PIPE)
    try:
        assert process.stdout.readline() == "starting\n"
        assert worlds.wait_for(lambda: len(worlds.marked(env[worlds.MARK])) > 2)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=worlds.LIMIT)
        assert (out, "stopped by hand: launch" in err) == ("", True)
        assert worlds.left_of(env[worlds.MARK]) == []
        assert list(folder.glob("ranks-*")) == []
    finally:
        worlds.end(env[worlds.MARK])


def test_a_rank_that_ignores_signals_ends_with_its_world(world):
    world.book.good(
        "%%px\n"
        "import signal\n"
        "for name in ('SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT'):\n"
        "    _ = signal.signal(getattr(signal, name), signal.SIG_IGN)"
    )
    world.book.good("ranks.stop()")
    world.assert_gone()


def test_processes_that_a_rank_started_end_with_it(world):
    pids = eval(
        world.book.good(
            "%px import subprocess; child = subprocess.Popen(['sleep', '1000']).pid\n"
            "ranks['child']"
        )
    )
    started = [psutil.Process(pid) for pid in pids]
    world.book.good("ranks.stop()")
    assert not worlds.left_after(started)
    world.assert_gone()
