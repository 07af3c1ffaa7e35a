"""Values between notebook and ranks: the value, or one short error on it."""

import json
import os
import re
import subprocess
import sys
import threading
from collections import namedtuple
from pathlib import Path

import pytest
import torch
import worlds

from course_utils import launch
from course_utils.text.errors import RankError
from course_utils.world.parcel import pack, unpack

CELL = """
import threading
from collections import namedtuple
from dataclasses import dataclass
import torch
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel

rank = dist.get_rank()

@dataclass
class Point:
    x: int
    y: torch.Tensor

class Late:
    def __reduce__(self):
        return missing_there, ()

def missing_there():
    raise OSError("only where it was made")

Pair = namedtuple("Pair", "a b")
point, pair = Point(rank, torch.ones(2)), Pair(rank, "b")
function = lambda n: n + rank
model = DistributedDataParallel(torch.nn.Linear(2, 1))
lock, late, generator = threading.Lock(), Late(), (i for i in range(3))
big = torch.arange(1_000_000.0)
part, column = big[:10], big.view(1000, 1000)[:, 0]
weights = torch.nn.Parameter(big[:10])
"""


@pytest.fixture(scope="module")
def world():
    with launch(2) as ranks:
        ranks.view.execute(CELL, block=True)
        yield ranks


def test_objects_of_classes_from_a_cell_arrive(world):
    assert [(p.x, p.y.tolist()) for p in world["point"]] == [(0, [1, 1]), (1, [1, 1])]
    assert [pair.a for pair in world["pair"]] == [0, 1]
    assert [function(5) for function in world["function"]] == [5, 6]


@pytest.mark.parametrize("name", ["model", "lock", "late", "generator"])
def test_what_cannot_arrive_is_one_error_and_the_next_works(world, name):
    with pytest.raises(RankError) as error:
        world[name]
    text = str(error.value)
    assert text.startswith("[ranks 0–1] a value ")
    assert text.count("\n") == 0 and "; " in text, "it says a way on"
    assert world["rank"] == [0, 1]


@pytest.mark.parametrize(
    "value", [threading.Lock(), [threading.Lock()], (i for i in ())]
)
def test_what_cannot_be_sent_is_one_error_and_the_next_works(world, value):
    with pytest.raises(RankError) as error:
        world["sent"] = value
    assert str(error.value).startswith("a value cannot be sent between notebook and")
    assert str(error.value).count("\n") == 0
    world["sent"] = 7
    assert world["sent"] == [7, 7]


@pytest.mark.parametrize(
    ("name", "size"),
    [("part", 40), ("column", 4000), ("weights", 40), ("big", 4000000)],
)
def test_views_arrive_without_the_rest(world, name, size):
    [value, _] = world[name]
    assert value.untyped_storage().nbytes() == size
    assert value.requires_grad == (name == "weights")
    assert type(value).__name__ == ("Parameter" if name == "weights" else "Tensor")


def test_eval_and_exec_take_the_variables_of_the_rank(world):
    assert world.run(eval, "rank + 1") == [1, 2]
    world.run(exec, "made = rank + 2")
    assert world["made"] == [2, 3]
    assert world.run(eval, "'_called' in dir()") == [True, True]
    world.view.execute("left = '_called' in dir()", block=True)
    assert world["left"] == [False, False]


def storage(name: str) -> int:
    from IPython import get_ipython

    return get_ipython().user_ns[name].untyped_storage().nbytes()


def test_views_are_sent_without_the_rest(world):
    big = torch.arange(1_000_000.0)
    for name, value, size in (
        ("s", big[:10], 40),
        ("s", big.view(1000, 1000)[:, 3], 4000),
        ("s", big[:2].expand(3, 2), 24),
    ):
        world[name] = value
        assert world.run(storage, name) == [size] * 2
        assert torch.equal(world[name][0], value)
    world["both"] = {"list": [big[5:7]], "same": big}
    assert torch.equal(world["both"][1]["list"][0], big[5:7])


KNOWN = [os.getenv, torch.nn.Linear, worlds.wait_for, launch, json.dumps, Path]


@pytest.mark.parametrize("value", KNOWN, ids=lambda value: value.__name__)
def test_what_every_process_can_import_is_sent_by_name(value):
    assert len(pack(value)) < 200
    assert unpack(pack(value)) is value


Named = namedtuple("Named", "a")


def helper(number: int) -> int:
    return number + 1


def calls_a_helper(number: int) -> "Named":
    return Named(helper(number))


def test_functions_of_a_test_file_bring_their_helpers(world):
    assert world.run(calls_a_helper, 1) == [Named(2), Named(2)]


def names_of_the_rank() -> int:
    global counted
    counted = big.numel()  # noqa: F821 - of the rank
    return counted


SCRIPT = """
import threading
import beside
from course_utils import launch

SCALE, LOCK = 10, threading.Lock()

class Result:
    def __init__(self, value):
        self.value = value

def scaled(n):
    return SCALE * n

def work(n):
    global kept
    kept = scaled(n)
    return Result(kept + on_ranks)

class Twice:
    def of(self, numbers):
        return {n: scaled(n) for n in numbers}

def made_inside():
    inside = lambda: [scaled(n) for n in range(2)]
    return inside(), Twice().of([3])

def locked():
    return LOCK

if __name__ == "__main__":
    with launch(2) as ranks:
        ranks["on_ranks"] = 1
        results = ranks.run(work, 4)
        print([(isinstance(r, Result), r.value) for r in results], ranks["kept"])
        print(ranks.run(beside.twice, 4), ranks.run(lambda: beside.twice(SCALE)))
        print(ranks.run(made_inside), ranks.run(eval, "'scaled' in globals()"))
        try:
            ranks.run(eval, "[scaled(n) for n in range(2)]")
        except RuntimeError as error:
            print(error)
        try:
            ranks.run(locked)
        except RuntimeError as error:
            print(error)
"""


def test_functions_of_a_script_and_of_a_module_beside_it(tmp_path: Path):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "beside.py").write_text("def twice(n):\n    return 2 * n\n")
    script = tmp_path / "there" / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, script],
        cwd=tmp_path,
        env=worlds.environment(),
        capture_output=True,
        text=True,
        timeout=worlds.LIMIT,
    )
    first, second, third, *error = done.stdout.splitlines()
    assert first == "[(True, 41), (True, 41)] [40, 40]", done.stderr
    assert second == "[8, 8] [20, 20]"
    assert third == "[([0, 10], {3: 30}), ([0, 10], {3: 30})] [False, False]"
    said = "\n".join(error)
    assert "name 'scaled' is not defined" in said  # it came for one call
    assert re.search(r"NameError at line \d+ of script.py: return LOCK", said)


STUCK = """
import torch.distributed as dist
from course_utils import launch

def work():
    if dist.get_rank() == 0:
        dist.barrier()

def alone():
    if dist.get_rank() == 0:
        dist.recv(__import__("torch").ones(1), src=1)

if __name__ == "__main__":
    for function, limits in ((work, {"patience": 2}), (alone, {"timeout": 30})):
        with launch(2, **limits) as ranks:
            try:
                ranks.run(function)
            except RuntimeError as error:
                print(error)
"""


def test_the_report_of_a_script_names_line_and_cause(tmp_path: Path):
    script = tmp_path / "stuck.py"
    script.write_text(STUCK)
    done = subprocess.run(
        [sys.executable, script],
        env=worlds.environment(),
        capture_output=True,
        text=True,
        timeout=worlds.LIMIT,
    )
    said = " ".join(done.stdout.split())
    assert "rank 0 waits for rank 1" in said, done.stderr
    assert "waits in barrier at line 7 of stuck.py for 2 s" in said
    assert (
        "line 7 stands under `if dist.get_rank() == 0:`, so rank 1 never came" in said
    )
    assert "[rank 0] waits in recv(src=1) at line 11 of stuck.py for 5 s" in said
    assert "insecure" not in done.stderr


RANDOM = "import random, numpy, torch\n"
RANDOM += "drawn = [torch.rand(1).item(), numpy.random.rand(), random.random()]"


def test_random_numbers_differ_between_ranks_and_launches():
    drawn = []
    for _ in range(2):
        with launch(3) as ranks:
            ranks.view.execute(RANDOM, block=True)
            drawn += ranks["drawn"]
            seeded = "torch.manual_seed(1); drawn = torch.rand(1).item()"
            ranks.view.execute(seeded, block=True)
            assert len(set(ranks["drawn"])) == 1, "a seed still makes them the same"
    assert all(len(set(numbers)) == 6 for numbers in zip(*drawn, strict=True))


LEFT = {
    "TORCHELASTIC_USE_AGENT_STORE": "True",
    "TORCHELASTIC_RUN_ID": "none",
    "RANK": "7",
    "WORLD_SIZE": "9",
    "MASTER_ADDR": "10.0.0.1",
    "MASTER_PORT": "1",
    "GROUP_RANK": "3",
    "GLOO_SOCKET_IFNAME": "nothing0",
    "NCCL_SOCKET_IFNAME": "nothing0",
}
ENVIRONMENT = """
import os, sys
import torch
from torch import distributed as dist
total = torch.ones(1)
dist.all_reduce(total)
left = sorted(n for n in os.environ if n.startswith(("TORCHELASTIC", "GROUP_")))
names = os.environ["RANK"], os.environ["GLOO_SOCKET_IFNAME"]
seen = [int(total), *names, left, sys.argv[1:]]
"""


@pytest.mark.parametrize("engines", [None, "local"])
def test_what_another_launcher_left_does_not_matter(monkeypatch, engines):
    for name, value in LEFT.items():
        monkeypatch.setenv(name, value)
    with launch(2, engines=engines) as ranks:
        ranks.view.execute(ENVIRONMENT, block=True)
        assert ranks["seen"] == [
            [2, str(r), "lo", ["GROUP_RANK"], sys.argv[1:]] for r in range(2)
        ]
        rendezvous = "dist.destroy_process_group(); dist.init_process_group('gloo')"
        ranks.view.execute(rendezvous, block=True)
