"""Cells of every kind in random order on one world: after each the world is right."""

import os
import random
import threading
from collections.abc import Callable, Iterator

import pytest
import torch
import worlds
from cells import Cells, mended, prepare
from fault_rows import PATIENCE

from course_utils import launch
from course_utils.text.errors import RankError
from course_utils.world.ranks import Ranks

SIZE = 3
SEEDS = int(os.environ.get("SEEDS", "2"))  # of `make soak`; ten before a release
VALUES = [
    "7",
    "'text'",
    "None",
    "[1, {'a': (2, 3.5)}]",
    "b'bytes'",
    "{1, 2}",
    "float('inf')",
    "torch.arange(6).view(2, 3).T",
    "torch.ones(4, dtype=torch.bfloat16)[1:3]",
    "type('C', (), {'a': 1})()",
    "lambda n: n + 1",
]
UNSENT = ["threading.Lock()", "(i for i in ())", "sys._getframe()", "dist.group.WORLD"]
FAILING = ["1 / 0", "{}['k']", "raise ValueError('at 0x12')", "torch.ones(2) @ x[:1]"]
STUCK = [
    "if rank == {r}: dist.barrier()",
    "if rank != {r}: dist.all_reduce(x)",
    "dist.recv(x, src={r}) if rank != {r} else None",
    "if rank == {r}: dist.broadcast(x, src={r})\nelse: dist.barrier()",
    "work = dist.all_reduce(x, async_op=True) if rank != {r} else None\n"
    "if work: work.wait()",
]
ENDLESS = [
    "while rank == {r}: pass",
    "time.sleep(60) if rank == {r} else dist.barrier()",
]
CONCAT = "concat.all_gather_cat(torch.full((rank, 2), rank)).sum().item()"


class Cell:
    """One random cell; `run` runs it and checks what it shows."""

    def __init__(self, chance: random.Random, cells: Cells, world: Ranks) -> None:
        self.chance, self.cells, self.world = chance, cells, world
        self.word = f"word{chance.randrange(10**9)}"
        self.rank = chance.randrange(SIZE)
        self.lost: list[int] = []

    def some(self, sources: list[str]) -> str:
        return self.chance.choice(sources).replace("{r}", str(self.rank))

    def run(self) -> str:
        """Run a cell of a random kind; return its name."""
        kinds = [getattr(self, name) for name in sorted(dir(type(self)))]
        kinds = [k for k in kinds if getattr(k, "__name__", "").startswith("one_")]
        kind = self.chance.choice(kinds)
        kind()
        return kind.__name__

    def shows(self, call: Callable, *args, **more) -> str:
        """Print a word in a cell that fails; it must stand above the report."""
        said, error = call(*args, **more)
        assert isinstance(error, RankError), repr(error)
        assert said.lstrip().startswith(f"[ranks 0–{SIZE - 1}] {self.word}\n"), said
        return str(error)

    def one_that_prints(self):
        source = f"print('{self.word}')\n{CONCAT}"
        said = self.cells.good(f"from course_utils import concat\n{source}")
        assert said == f"[ranks 0–{SIZE - 1}]\n  {self.word}\n  10"

    def one_that_fails(self):
        source = f"print('{self.word}', flush=True)\nif rank == {self.rank}:\n    "
        report = self.shows(self.cells.run, source + self.some(FAILING))
        assert report.startswith(f"[rank {self.rank}] ")

    def one_that_is_stuck(self):
        source = f"print('{self.word}', flush=True)\n{self.some(STUCK)}"
        report = self.shows(self.cells.run, source)
        assert "repaired: " in report or "so it did not run" in report  # the guard

    def one_that_is_stopped(self):
        source = f"print('{self.word}', flush=True)\n{self.some(ENDLESS)}"
        after = self.chance.choice([0.1, 0.5, 1.0])
        assert self.cells.interrupted(source, after).startswith(
            ("interrupted:", "stuck:")
        )

    def one_with_a_rank_that_dies(self):
        source = f"print('{self.word}', flush=True)\ntime.sleep(0.2)\n"
        source += f"if rank == {self.rank}: os._exit({self.chance.randrange(9)})\n"
        report = self.shows(self.cells.run, f"{source}dist.barrier()")
        assert f"[rank {self.rank}] died" in report
        self.world.repair()
        self.lost = [self.rank]

    def one_that_makes_a_value(self):
        self.cells.good(f"value = {self.some(VALUES)}")
        assert len(self.world["value"]) == SIZE

    def one_that_sends_a_value(self):
        names = {"torch": torch}
        value = eval(self.some(VALUES[:-2]), names)
        self.world["value"] = value
        told = self.world["value"]
        assert all(str(got) == str(value) for got in told)

    def one_whose_value_cannot_be_sent(self):
        self.cells.good(f"value = {self.some(UNSENT)}")
        with pytest.raises(RankError, match="a value cannot be sent between"):
            self.world["value"]
        with pytest.raises(RankError, match="a value cannot be sent between"):
            self.world["value"] = threading.Lock()

    def one_call(self):
        word = self.word

        def said(number: int) -> int:
            print(word)
            return number + 1

        assert self.world.run(said, 1) == [2] * SIZE

    def one_call_that_fails(self):
        def fails() -> None:
            raise OSError("planned")

        with pytest.raises(RankError, match=r"OSError at line \d+ of test_random"):
            self.world.run(fails, targets=self.rank)


@pytest.fixture
def world(cells: Cells) -> Iterator[Ranks]:
    with launch(SIZE, patience=PATIENCE) as ranks:
        yield ranks


def go_through(cells: Cells, world: Ranks, seed: int, count: int) -> None:
    chance, done = random.Random(seed), []
    before = len(worlds.family())
    for _ in range(count):
        prepare(cells)
        cell = Cell(chance, cells, world)
        try:
            done.append(cell.run())
            mended(cells, world, cell.lost)
        except BaseException as error:
            error.add_note(f"seed {seed}, after {done[-5:]}, cell {len(done)}")
            raise
    assert worlds.wait_for(lambda: len(worlds.family()) <= before, 10)


def test_random_cells(cells, world):
    go_through(cells, world, seed=0, count=40)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1, 1 + SEEDS))
@pytest.mark.timeout(900)
def test_two_hundred_random_cells(cells, world, seed):
    go_through(cells, world, seed, count=200)
