"""launch(): what every rank is given, and that a world works."""

import errno
import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest
import worlds
from ipyparallel import interactive

from course_utils import launch
from course_utils.engines import Forked
from course_utils.text.errors import RankError
from course_utils.world import start
from course_utils.world.ranks import Ranks

BY_HAND = """
import os, sys
from course_utils import launch

def meet(mark):
    import torch
    from torch import distributed as dist
    dist.init_process_group("gloo")
    seen = []
    for _ in range(20):
        marks = [torch.empty(1, dtype=torch.long) for _ in range(2)]
        dist.all_gather(marks, torch.tensor([mark]))
        seen += [m.item() for m in marks]
    dist.destroy_process_group()
    return seen

with launch(2, init=False) as ranks:
    print("up", flush=True)
    sys.stdin.readline()
    seen = sum(ranks.run(meet, os.getpid()), [])
    print(set(seen) == {os.getpid()}, seen)
"""


@interactive
def variables() -> dict[str, str]:
    import os

    return dict(os.environ)


@interactive
def my_rank() -> int:
    from torch import distributed as dist

    return dist.get_rank()


@interactive
def gather(value: int) -> list[int]:
    import torch
    from torch import distributed as dist

    parts = [torch.empty(1, dtype=torch.long) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, torch.tensor([value + dist.get_rank()]))
    return [part.item() for part in parts]


@interactive
def mismatch() -> list[int]:
    import torch
    from torch import distributed as dist

    shape = (2, 3) if dist.get_rank() else (3, 2)
    parts = [torch.empty(shape) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, torch.zeros(shape))
    return list(parts[0].shape)


@pytest.fixture(scope="module", params=[1, 2, 4])
def world(request: pytest.FixtureRequest) -> Iterator[Ranks]:
    """Return a world of one, two and four ranks."""
    with launch(request.param) as ranks:
        yield ranks


def test_repr_is_short_and_repeatable(world):
    size = len(world)
    word = "rank" if size == 1 else "ranks"
    assert repr(world) == f"{size} {word} · gloo · cpu"


def test_every_rank_has_the_variables_of_torchrun(world):
    size = len(world)
    ports = set()
    for rank, env in enumerate(world.run(variables)):
        assert env["RANK"] == env["LOCAL_RANK"] == str(rank)
        assert env["WORLD_SIZE"] == env["LOCAL_WORLD_SIZE"] == str(size)
        assert env["MASTER_ADDR"] == "127.0.0.1" and env["GROUP_RANK"] == "0"
        assert env["OMP_NUM_THREADS"] == "1"
        ports.add(int(env["MASTER_PORT"]))
    assert len(ports) == 1 and 1024 < ports.pop() < 65536


def test_position_is_rank(world):
    assert world.run(my_rank) == list(range(len(world)))


def test_all_gather_brings_every_shard_to_every_rank(world):
    expected = [100 + rank for rank in range(len(world))]
    assert world.run(gather, 100) == [expected] * len(world)


def test_every_rank_is_a_process_of_its_own(world):
    pids = world.run(os.getpid)
    assert len({*pids, os.getpid()}) == len(world) + 1


def test_port_for_rendezvous_by_hand_is_kept(world):
    """No other program can be given the port."""
    port = int(world.run(variables)[0]["MASTER_PORT"])
    with socket.socket() as other, pytest.raises(OSError) as refused:
        other.bind(("127.0.0.1", port))
    assert refused.value.errno == errno.EADDRINUSE


def test_ranks_keep_their_positions_at_every_launch():
    for _ in range(2):
        with launch(6) as ranks:
            assert ranks.run(my_rank) == list(range(6))
            assert [int(v["RANK"]) for v in ranks.run(variables)] == list(range(6))


def test_init_false_leaves_the_group_to_the_learner():
    @interactive
    def initialised() -> bool:
        from torch import distributed as dist

        return dist.is_initialized()

    @interactive
    def init() -> str:
        from torch import distributed as dist

        dist.init_process_group("gloo")
        return dist.get_backend()

    with launch(2, init=False) as ranks:
        assert repr(ranks) == "2 ranks · no process group · cpu"
        assert ranks.run(initialised) == [False, False]
        assert ranks.run(init) == ["gloo", "gloo"]
        assert ranks.run(gather, 10) == [[10, 11], [10, 11]]


def test_two_worlds_that_initialise_by_hand_never_meet():
    env = worlds.environment()
    both = [worlds.script(BY_HAND, env, stdin=subprocess.PIPE) for _ in range(2)]
    try:
        for process in both:
            assert process.stdout.readline() == "up\n"
        for process in both:  # now both initialise at the same moment
            process.stdin.write("go\n")
            process.stdin.flush()
        for process in both:
            out, _ = process.communicate(timeout=worlds.LIMIT)
            assert out.startswith("True "), out
            assert process.returncode == 0
    finally:
        worlds.end(env[worlds.MARK])


def test_guard_compares_collectives_before_they_run():
    with launch(2) as ranks:
        with pytest.raises(RankError, match=r"^\[ranks 0–1\] the ranks disagree"):
            ranks.run(mismatch)
        assert ranks.run(gather, 0) == [[0, 1], [0, 1]]  # the group is still good


def test_guard_false_leaves_collectives_unguarded():
    with launch(2, guard=False) as ranks:
        assert ranks.run(mismatch) == [[3, 2], [2, 3]]  # torch sees no difference


def test_timeout_is_that_of_the_group():
    with launch(2, timeout=1.5, guard=False) as ranks:
        with pytest.raises(RankError, match="1500 ?ms") as failed:
            ranks.run(gather, 0, targets=0)  # rank 1 never comes
        assert str(failed.value).endswith(
            "\n  repaired: a new process group is up, variables are kept"
        )
        assert ranks.run(gather, 0) == [[0, 1], [0, 1]]


def test_a_new_world_replaces_the_old_one():
    launch(1).stop()
    before = worlds.family()  # the parent of the processes of every world
    old = launch(2)
    first = [p for p in worlds.family() if p not in before]
    try:
        old["x"] = 1
        new = launch(3)
        assert not worlds.left_after(first)
        assert repr(old) == "2 ranks · stopped"
        assert new.run(my_rank) == [0, 1, 2]
        with pytest.raises(NameError):
            new["x"]
    finally:
        launch(1).stop()
    assert len(first) >= 3  # the controller and two ranks at least


def test_a_world_in_a_plain_script():
    source = (
        "from course_utils import launch\n"
        "with launch(2) as ranks:\n"
        "    ranks['x'] = 3\n"
        "    print(ranks, ranks['x'], ranks.run(lambda a: a + 1, 4))\n"
        "print(ranks)\n"
        "launch(1)  # left to the end of the program\n"
    )
    env = worlds.environment()
    try:
        done = subprocess.run(
            [sys.executable, "-c", source],
            env=env,
            text=True,
            capture_output=True,
            timeout=worlds.LIMIT,
        )
        left = worlds.left_of(env[worlds.MARK])
    finally:
        worlds.end(env[worlds.MARK])
    assert done.stdout.splitlines() == [
        "2 ranks · gloo · cpu [3, 3] [5, 5]",
        "2 ranks · stopped",
    ]
    assert (done.returncode, done.stderr, left) == (0, "", [])


def test_importing_the_package_is_cheap():
    """The fork parent can begin before the client has imported anything."""
    source = (
        "import sys, course_utils\n"
        "heavy = {'torch', 'ipyparallel', 'matplotlib', 'IPython', 'numpy', 'zmq'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", source], text=True, capture_output=True, timeout=60
    )
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr


def test_the_environment_names_the_launcher(monkeypatch):
    monkeypatch.setenv("COURSE_UTILS_ENGINES", "local")
    with launch(1) as ranks:
        assert not isinstance(ranks.cluster, Forked)
        assert ranks.run(os.getenv, "WORLD_SIZE") == ["1"]


def test_a_call_that_says_more_is_left_alone(monkeypatch):
    monkeypatch.setenv("COURSE_UTILS_ENGINES", "slurm")
    assert start.named_outside("MPI") == (None, None)
    with launch(1, engines="local") as ranks:
        assert ranks.run(os.getenv, "WORLD_SIZE") == ["1"]
