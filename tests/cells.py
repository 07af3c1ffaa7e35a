"""Cells driven through `%%px` in an IPython shell of this process."""

from __future__ import annotations

import os
import signal
import threading
import time
from types import ModuleType

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

from course_utils.text.errors import RankError
from course_utils.world.ranks import Ranks
from course_utils.world.variables import pull

PREPARE = """\
import os, resource, signal, sys, threading, time
import torch
from torch import distributed as dist
rank, world_size = dist.get_rank(), dist.get_world_size()
x = torch.tensor([100 * rank, 100 * rank + 1])
kept = f"of rank {rank}"
def room(like=x):
    return [torch.empty_like(like) for _ in range(world_size)]
"""
AFTERWARDS = """\
import torch
from torch import distributed as dist
parts = [torch.empty(2, dtype=torch.int64) for _ in range(dist.get_world_size())]
dist.all_gather(parts, torch.tensor([dist.get_rank(), 7]))
torch.cat(parts).tolist()"""
LIMIT = 60.0  # seconds; whatever takes longer hangs


class Cells:
    """A shell in which `%%px` runs cells on the ranks of one world."""

    def __init__(self) -> None:
        quiet = Config(HistoryManager={"enabled": False}, InteractiveShell={})
        self.shell = InteractiveShell.instance(
            config=quiet, colors="nocolor", user_module=ModuleType("cells")
        )
        self.shell.autoawait = False

    def close(self) -> None:
        """Leave no shell behind for the tests that come after."""
        InteractiveShell.clear_instance()

    def run(self, cell: str, targets: str = "") -> tuple[str, BaseException | None]:
        """Run a cell on the ranks; return what it printed, and its exception."""
        where = f" --targets {targets}" if targets else ""
        with capture_output() as said:
            ran = self.shell.run_cell(f"%%px{where}\n{cell}")
        error = ran.error_before_exec or ran.error_in_exec
        return said.stdout, error

    def good(self, cell: str, targets: str = "") -> str:
        """Run a cell that must not fail; return what it printed."""
        said, error = self.run(cell, targets)
        assert error is None, f"{cell}\n{error}"
        return said.rstrip()

    def report(self, cell: str, targets: str = "") -> str:
        """Run a cell that must end with `RankError`; return its text."""
        said, error = self.run(cell, targets)
        assert isinstance(error, RankError), f"{cell}\n{error!r}\n{said}"
        shown, whole = said.split(), str(error).split()  # long lines are folded
        assert shown[-len(whole) :] == whole, "the reader sees the report"
        return str(error)

    def interrupted(self, cell: str, after: float, twice: bool = False) -> str:
        """Run a cell, interrupt it as Ctrl-C does; return its report."""

        def press() -> None:
            os.kill(os.getpid(), signal.SIGINT)

        timers = [threading.Timer(after, press)]
        if twice:
            timers.append(threading.Timer(after + 0.2, press))
        for timer in timers:
            timer.start()
        try:
            return self.report(cell)
        finally:
            for timer in timers:
                timer.cancel()
                timer.join()


def prepare(cells: Cells) -> None:
    """Give every rank the names that the cells use."""
    cells.good(PREPARE)


def mended(cells: Cells, ranks: Ranks, lost: list[int]) -> None:
    """Check that the world works and that only `lost` ranks lost their variables."""
    started = time.monotonic()
    size = len(ranks)
    expected = [number for rank in range(size) for number in (rank, 7)]
    assert cells.good(AFTERWARDS) == f"{everyone(size)} {expected}"
    held = [found for found, _ in ranks.run(pull, "kept")]
    assert held == [rank not in lost for rank in range(size)]
    assert time.monotonic() - started < LIMIT


def everyone(size: int) -> str:
    """Return the tag of all ranks of a world."""
    return f"[ranks 0–{size - 1}]" if size > 1 else "[rank 0]"
