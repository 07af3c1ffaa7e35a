"""What the tests of every launcher assert of a world on two hosts."""

from __future__ import annotations

import time

from lab import Lab
from session import Session

END = 30.0  # seconds until nothing is left of a world whose kernel was killed
PATIENCE = 5.0  # seconds until nothing is left of one that was stopped
TREE = "ps axfww -o pid,ppid,stat,wchan:20,etimes,args; ss -tnap"
JOIN = """\
%%px
from course_utils.concat import all_gather_cat
rank = dist.get_rank()
all_gather_cat(torch.full((1, rank + 1), rank), dim=1).tolist()
"""
STUCK = """\
%%px
kept = dist.get_rank()
if kept != {absent}:
    dist.all_reduce(torch.ones(3))
"""


def assert_works(book: Session, size: int) -> None:
    """Assert that the ranks of a world join their shards, and know their places."""
    whole = [rank for rank in range(size) for _ in range(rank + 1)]
    assert book.good(JOIN).endswith(f"[ranks 0–{size - 1}] [{whole}]")
    hosts = book.value("ranks.hosts")
    book.good("import os, socket")
    assert book.value("ranks.run(socket.gethostname)") == hosts
    local = [str(hosts[:rank].count(host)) for rank, host in enumerate(hosts)]
    assert book.value("ranks.run(os.getenv, 'LOCAL_RANK')") == local
    per_host = [str(hosts.count(host)) for host in hosts]
    assert book.value("ranks.run(os.getenv, 'LOCAL_WORLD_SIZE')") == per_host
    assert book.value("ranks.run(os.getenv, 'OMP_NUM_THREADS')") == ["1"] * size


def stuck_on_purpose(book: Session, host: str) -> None:
    """Assert that a rank of four that does not come is named, with its host."""
    said = book.failure(STUCK.format(absent=2))
    assert f"stuck: ranks 0–1, 3 wait for rank 2, on {host}" in said
    assert "a new process group is up, variables are kept" in said
    assert book.value("ranks['kept']") == [0, 1, 2, 3]


def assert_replaced(book: Session, before: list[int], stayed: int) -> None:
    """Assert that rank 3 is a new process on its host, and that all works.

    before: the pids of the ranks before it was killed; stayed: how many of the first
    ranks must be the same processes.
    """
    after = book.value("ranks.run(os.getpid)")
    assert after[:stayed] == before[:stayed] and after[3] != before[3]
    assert book.value("ranks.hosts")[3] == "node2"
    book.good("%px import torch, torch.distributed as dist")
    assert_works(book, 4)


def assert_outside(lab: Lab, book: Session, controller: int) -> None:
    """Assert that what must listen beyond loopback does, and nothing else.

    controller: how many of its ports engines on other hosts need.
    """
    for host in lab.NAMES:
        heard = lab.listening(host)
        assert {address for address in heard if address != lab.address(host)} <= {
            "127.0.0.1"
        }, (host, heard)
    assert lab.listening("login").count(lab.address("login")) == controller


def assert_lost_host_comes_back(lab: Lab, world: Session, starter: str) -> None:
    """Assert that repair names what could not start, and works with the cable in."""
    with lab.pulled("node2"):
        world.failure("%px dist.barrier()")
        said = world.failure("ranks.repair()")
        assert f"{starter} could not start a new process for rank 2 on node2" in said
        assert "ranks.shrink() goes on without it" in said
    assert "ranks 2–3 are new processes" in world.good("ranks.repair()")
    world.good("%px import torch, torch.distributed as dist")
    assert_works(world, 4)


def wait_for_end(lab: Lab, limit: float = END) -> None:
    """Wait until no host runs anything of a world."""
    deadline = time.monotonic() + limit
    while any(map(lab.processes, lab.NAMES)) and time.monotonic() < deadline:
        time.sleep(0.5)


def assert_clean(lab: Lab, but: str = "nothing") -> None:
    """Assert that nothing of a world is left: no process, no folder, no key.

    but: part of the command line of processes that may be.
    """
    wait_for_end(lab, PATIENCE)
    for host in lab.NAMES:
        left = [line for line in lab.processes(host) if but not in line]
        assert left == [], f"{host}: {left}\n{lab.run(host, TREE)}"
        assert not [name for name in lab.files("/tmp", host) if "ranks" in name], host
    assert not [name for name in lab.files(lab.folder) if "ranks" in name]
