"""Work that is polled: what a call of MPI's has begun, and how a rank waits for it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import torch
from torch import distributed as dist

YIELDS = 300  # polls before the first nap
FIRST, LONGEST, LONGER = 2e-5, 1e-3, 1.2  # seconds of a nap, and how it grows
MANY = 64  # pieces of open work, from which on forgotten ones are looked for
GIVEN_UP = "mpi: {} was given up, and with it the process group"
SOON = timedelta(0)  # as torch says that no time-out was named

_open: dict[Work, object] = {}  # work that MPI has not done, and the group of each
_lost: list[Work] = []  # given up; MPI may still touch the memory that it keeps


class Begun(NamedTuple):
    """What a call of MPI's has begun.

    test: tells whether it is done; keep: the tensors that MPI reads and writes
    meanwhile; after: what is left to do then; result: the tensors that it fills;
    sender: tells from which rank a message came.
    """

    test: Callable[[], bool]
    keep: Sequence[torch.Tensor] = ()
    after: Callable[[], object] | None = None
    result: Sequence[torch.Tensor] = ()
    sender: Callable[[], int] | None = None


class Work(dist.Work):
    """Something that MPI does, and that goes on while it is asked for.

    name: of the operation; limit: after which a wait fails; group: whose work it is.
    """

    def __init__(
        self, name: str, begun: Begun, limit: timedelta, group: object
    ) -> None:
        super().__init__()
        self.name, self.given_up = name, False
        self._begun, self._limit, self._result = begun, limit, list(begun.result)
        self._error: Exception | None = None
        _open[self] = group
        if len(_open) > MANY:
            for work in [*_open]:
                work.is_completed()

    def is_completed(self) -> bool:
        """Tell whether it has ended; let MPI go on with it if not."""
        if self not in _open:
            return True
        if self.given_up:
            _lost.append(self)
            self._error = RuntimeError(GIVEN_UP.format(self.name))
            del _open[self]
            return True
        try:
            if not self._begun.test():
                return False
            if self._begun.after is not None:
                with torch.no_grad():
                    self._begun.after()
        except Exception as error:
            self._error = RuntimeError(f"mpi: the group failed in {self.name}: {error}")
        self._begun = self._begun._replace(keep=(), after=None)
        del _open[self]
        return True

    def wait(self, timeout: timedelta = SOON) -> bool:
        """Wait for its end; raise RuntimeError if it fails, or takes too long."""
        limit = (timeout if timeout > SOON else self._limit).total_seconds()
        deadline = time.monotonic() + limit
        for _ in pauses():
            if self.is_completed():
                break
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"mpi: Timed out waiting {limit:g} s for {self.name}"
                )
        if self._error is not None:
            raise self._error
        return True

    def is_success(self) -> bool:
        """Tell whether it has ended as it should."""
        return self.is_completed() and self._error is None

    def exception(self) -> Exception | None:
        """Return why it failed."""
        return self._error

    def synchronize(self) -> None:
        """Wait, as `wait` does."""
        self.wait()

    def result(self) -> list[torch.Tensor]:
        """Return the tensors that it fills."""
        return self._result

    def source_rank(self) -> int:
        """Return the rank of the group from which a message came."""
        return self._begun.sender()

    _source_rank = source_rank

    def get_future(self) -> torch.futures.Future[Any]:
        """Wait, and return a future that holds the result."""
        self.wait()
        future = torch.futures.Future()
        future.set_result(self._result)
        return future


def pauses() -> Iterator[None]:
    """Let other processes run between two polls: at first an instant, then longer."""
    for _ in range(YIELDS):
        yield
        os.sched_yield()
    nap = FIRST
    while True:
        yield
        time.sleep(nap)
        nap = min(LONGER * nap, LONGEST)


def give_up(group: object = None) -> int:
    """Give up all open work, or that of a group; return how many pieces there were.

    Whoever waits for it fails at once. Any thread may call this.
    """
    chosen = [
        work
        for work, owner in list(_open.items())
        if not work.given_up and group in (None, owner)
    ]
    for work in chosen:
        work.given_up = True
    return len(chosen)
