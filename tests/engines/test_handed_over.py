"""Worlds whose engines one of ipyparallel's own launchers starts."""

import os
import socket

import mpi_ranks
import psutil
import pytest
import worlds
from ipyparallel import interactive
from ipyparallel.cluster.launcher import LocalEngineSetLauncher

from course_utils import launch
from course_utils.engines import over_mpi
from course_utils.text import RankError


@interactive
def gather(value: int) -> list[int]:
    import torch
    from torch import distributed as dist

    parts = [torch.empty(1, dtype=torch.long) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, torch.tensor([value + dist.get_rank()]))
    return [part.item() for part in parts]


def check(ranks, before: list[psutil.Process]) -> list[psutil.Process]:
    """Assert that a world of two works; return its processes."""
    assert repr(ranks) == "2 ranks · gloo · cpu"
    assert ranks.run(gather, 10) == [[10, 11], [10, 11]]
    for name, values in (
        ("RANK", ["0", "1"]),
        ("LOCAL_RANK", ["0", "1"]),
        ("WORLD_SIZE", ["2", "2"]),
        ("LOCAL_WORLD_SIZE", ["2", "2"]),
        ("MASTER_ADDR", ["127.0.0.1"] * 2),
        ("OMP_NUM_THREADS", ["1", "1"]),
    ):
        assert ranks.run(os.getenv, name) == values
    host = socket.gethostname()
    assert [row[0] for row in ranks.where().rows] == [0, 1]
    assert [row[2:] for row in ranks.where().rows] == [(host, r, "cpu") for r in (0, 1)]
    assert [row[1] for row in ranks.where().rows] == ranks.run(os.getpid)
    ranks["x"] = 3
    assert ranks["x"] == [3, 3]
    return [process for process in worlds.family() if process not in before]


@pytest.mark.parametrize(
    "engines", ["local", pytest.param(LocalEngineSetLauncher, marks=pytest.mark.soak)]
)
def test_local_launcher(engines):
    before = worlds.family()
    with launch(2, engines=engines) as ranks:
        processes = check(ranks, before)
        if engines == "local":
            assert listening_outside(processes) == []
    assert repr(ranks) == "2 ranks · stopped"
    left = worlds.left_after(processes)
    assert not left, [worlds.describe(process) for process in left]


def listening_outside(processes: list[psutil.Process]) -> list:
    """Return the listening sockets that other machines could reach."""
    return [
        (worlds.describe(process), connection.laddr)
        for process in processes
        for connection in process.net_connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN
        and connection.laddr.ip not in ("127.0.0.1", "::1")
    ]


@pytest.mark.soak
@mpi_ranks.NEEDED
def test_mpi_launcher():
    before = worlds.family()
    with launch(2, engines="mpi") as ranks:
        processes = check(ranks, before)
        assert len(processes) >= 6  # mpiexec, controller, 2 engines, 2 nannies
        assert listening_outside(processes) == []
        ranks.kill(1)
        with pytest.raises(RankError, match=r"\[rank 1\]"):
            ranks.run(os.getpid)
        assert set(ranks.dead()) >= {1}  # some mpiexecs end all ranks with one
        ranks.repair()
        assert ranks.run(gather, 20) == [[20, 21], [20, 21]]
    assert not worlds.left_after(processes)


def test_kernel_is_killed(folder):
    with worlds.notebook(folder) as book:
        book.good("from course_utils import launch")
        said = book.good("ranks = launch(2, engines='local')\nranks")
        assert said == "2 ranks · gloo · cpu\n"
        assert book.good("%px RANK = 1\nranks['RANK']") == "[1, 1]\n"
        kernel = psutil.Process(book.km.provisioner.pid)
        processes = worlds.family(kernel.pid)
        assert len(processes) >= 3
        kernel.kill()
        left = worlds.left_after(processes)
        assert not left, [worlds.describe(process) for process in left]


HYDRA = """
=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   PID 11 RUNNING AT node2
=   EXIT CODE: 9
=   CLEANING UP REMAINING PROCESSES
YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)
"""
GFORKER = """
[0]0:Return code = 3
[0]1:Return code = 0, signaled with Killed
"""


@pytest.mark.parametrize(
    ("pid", "number", "words", "code"),
    [
        (11, "0", HYDRA, -9),
        (12, "0", HYDRA, None),
        (11, "0", HYDRA.partition("=   CLEANING")[0], 9),
        (21, "1", GFORKER, -9),
        (20, "0", GFORKER, 3),
        (22, "2", GFORKER, None),
    ],
)
def test_how_mpiexec_says_that_a_rank_ended(pid, number, words, code):
    assert over_mpi.ending_of(pid, number, words) == code
