"""Measure the seconds that a function takes, the same on every rank.

    timing = seconds(lambda: dist.all_gather(buffers, shard))
    timing.median, timing.floor         # the same on every rank

    timings = in_turns({"list": gather, "single": gather_single}, 80)

`seconds` and `in_turns` are collectives: every rank calls them.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from torch import distributed as dist

from course_utils.text import these_ranks

QUIET = 0.25  # share by which the median of a quiet machine exceeds the floor, at most


@dataclass(frozen=True)
class Timing:
    """Seconds of several repetitions, each of the rank that was slowest in it."""

    times: tuple[float, ...]

    @property
    def median(self) -> float:
        """Return the median of the repetitions: what a call typically takes."""
        return median(self.times)

    @property
    def floor(self) -> float:
        """Return the 10th percentile: what a call takes where nothing disturbs it.

        Noise only ever adds, so the fast end is what a model of the machine can
        predict; unlike the minimum, it does not hang on one lucky call.
        """
        return sorted(self.times)[len(self.times) // 10]

    @property
    def spread(self) -> float:
        """Return the middle half of the repetitions, as a share of the median."""
        ordered = sorted(self.times)
        quarter = len(ordered) // 4
        return (ordered[-1 - quarter] - ordered[quarter]) / self.median

    @property
    def quiet(self) -> bool:
        """Tell whether typical calls are so near the floor that a model holds."""
        return self.median <= (1 + QUIET) * self.floor


def seconds(
    function: Callable[[], Any],
    repetitions: int = 15,
    *,
    warm_up: int = 3,
    correct: Callable[[Any], bool] | None = None,
) -> Timing:
    """Time a function that every rank calls; return the same timing on every rank.

    First come `warm_up` calls. Then, `repetitions` times, a barrier, so that all begin
    together, and the clock around one call. In each repetition the slowest rank counts.
    Allocate buffers before, not in `function`: what is timed is then the transfer.

    correct: gets the result of the first call, and tells whether it is right; asked
        once, before anything is timed.
    Raises ValueError on every rank if the ranks disagree on the numbers, or a result
    is wrong; TypeError for something that cannot be called.
    """
    timings = in_turns({"": function}, repetitions, warm_up=warm_up, correct=correct)
    return timings[""]


def in_turns(
    functions: Mapping[Any, Callable[[], Any]],
    repetitions: int = 15,
    *,
    warm_up: int = 3,
    correct: Callable[[Any], bool] | None = None,
) -> dict[Any, Timing]:
    """Time functions that are to be compared; return a timing for each name.

    As `seconds`, but each repetition calls all of the functions, one after another:
    a busy moment of the machine then hits all of them, not one. The names and their
    order are the same on every rank.
    """
    for function in functions.values():
        if not callable(function):
            raise TypeError(f"function: expected something to call, got {function!r}")
    check_counts(repetitions, warm_up, list(functions))
    for function in functions.values():
        first = function()
        check_right(correct is None or bool(correct(first)))
        del first
        for _ in range(warm_up):
            function()
    shape = len(functions), repetitions
    times = torch.zeros(shape, dtype=torch.float64, device=_device())
    for turn in range(repetitions):
        for row, function in zip(times, functions.values(), strict=True):
            dist.barrier()
            row[turn] = _clocked(function)
    dist.all_reduce(times, op=dist.ReduceOp.MAX)
    rows = (Timing(tuple(row)) for row in times.tolist())
    return dict(zip(functions, rows, strict=True))


def _clocked(function: Callable[[], Any]) -> float:
    """Return the seconds of one call, the work on a GPU included."""
    start = time.perf_counter()
    function()
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return time.perf_counter() - start


def _device() -> str:
    return "cuda" if "nccl" in dist.get_backend() else "cpu"


def check_counts(repetitions: int, warm_up: int, names: list) -> None:
    """Raise ValueError, on every rank, for numbers that are wrong or not the same."""
    if not dist.is_initialized():
        raise RuntimeError("seconds: no process group; initialise it on every rank")
    given = [repetitions, warm_up]
    whole = all(isinstance(n, int) and not isinstance(n, bool) for n in given)
    digest = zlib.crc32(repr(names).encode())
    mine = torch.tensor([*(given if whole else [-1, -1]), digest], device=_device())
    told = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(told, mine)
    rows = [tuple(row.tolist()) for row in told]
    bad = [rank for rank, (n, w, _) in enumerate(rows) if n < 1 or w < 0]
    if bad:
        raise ValueError(
            "repetitions, warm_up: expected whole numbers of 1 or more and of 0 or "
            f"more, got others on {these_ranks(bad)}"
        )
    if len(set(rows)) > 1:
        differ = [rank for rank, row in enumerate(rows) if row != rows[0]]
        names_differ = len({name for *_, name in rows}) > 1
        what = "the names of the functions" if names_differ else "repetitions, warm_up"
        raise ValueError(
            f"{what}: expected the same on every rank, got others than on rank 0 on "
            f"{these_ranks(differ)}"
        )


def check_right(right: bool) -> None:
    """Raise ValueError on every rank where the result of any rank is wrong."""
    mine = torch.tensor([int(right)], device=_device())
    told = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(told, mine)
    wrong = [rank for rank, flag in enumerate(told) if not flag.item()]
    if wrong:
        raise ValueError(
            f"function: its result is wrong on {these_ranks(wrong)}; a wrong result "
            "is not worth timing"
        )
