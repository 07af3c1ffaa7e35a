"""The engines of a cluster as ranks: their settings, and calls of functions on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ipyparallel import AsyncResult

from course_utils.engines import Control
from course_utils.stuck import report
from course_utils.text import RankError, failures, tag
from course_utils.world.parcel import CannotSend, pack, unpack
from course_utils.world.rank import call, perform

if TYPE_CHECKING:
    from course_utils.engines import Forked, HandedOver


class World(Control):
    """Engines that are ranks, and what `launch` was told about them.

    backend: of the default process group; None where that is the learner's.
    hints: whether a cell is read before it runs, and what is found is printed.
    """

    def __init__(
        self,
        cluster: Forked | HandedOver,
        guard: bool = True,
        timeout: float = 300,
        patience: float = 5,
    ) -> None:
        super().__init__(cluster)
        self.guard, self.timeout, self.patience = guard, timeout, patience
        self.backend: str | None = None
        self.device = "cpu"
        self.hints = False
        self.stopped = False
        self.freed = 0  # how often ranks were asked to give their groups up

    def watch(
        self,
        result,
        targets: list[int],
        source: str = "",
        live=None,
        stopped: bool = False,
    ) -> None:
        """Wait for a cell or call; raise `RankError` if it cannot end by itself."""
        raise NotImplementedError  # `Ranks` does, with all that repairs a world

    def run_each(self, function: Callable[..., Any], calls: dict[int, tuple]) -> list:
        """Call a function on ranks, with arguments of its own for each.

        The process group stays as it is, whatever the function raises.
        """
        return self.run_in_turn([(function, calls)])[0]

    def run_in_turn(self, steps: list[tuple[Callable[..., Any], dict]]) -> list[list]:
        """Call functions on ranks, each rank without a wait for the others.

        steps: function, and by rank its arguments. Returns what each step returned.
        """
        for _, calls in steps:
            self.chosen(calls)
        begun = [(self.submit(*step), step[1]) for step in steps]
        returned = []
        for result, calls in begun:
            self.watch(result, list(calls))
            replies = self.results(result, calls)
            if errors := errors_of(replies):
                raise RankError(failures(errors))
            returned.append(list(replies.values()))
        return returned

    def run_all(self, function: Callable[..., Any], *args: object) -> list:
        """Call a function on every rank, as `run_each` does."""
        return self.run_each(function, dict.fromkeys(range(len(self)), args))

    def call_all(self, function: str, *args: object) -> list:
        """Call a function of the course, named as in "process_group:init"."""
        return self.run_all(call, function, *args)

    def submit(
        self, function: Callable[..., Any], calls: dict[int, tuple]
    ) -> AsyncResult:
        """Begin to call a function on ranks, with arguments of its own for each."""
        client, parts, parcels = self.cluster.client, [], {}
        for rank, args in calls.items():
            if id(args) not in parcels:  # the same for all: pickled once
                parcels[id(args)] = pack((function, args))
            view = client[self.ids[rank]]
            parts.append(view.apply_async(perform, parcels[id(args)]))
        children = [child for part in parts for child in part._children]
        targets = [self.ids[rank] for rank in calls]
        return AsyncResult(client, children, repr(function), targets)

    def results(self, result: AsyncResult, calls: Iterable[int]) -> dict[int, Any]:
        """Return by rank what a call that has ended returned or raised."""
        replies = result.get(return_exceptions=True)
        return {r: rebuilt(reply) for r, reply in zip(calls, replies, strict=True)}

    def chosen(self, targets: int | Iterable[int] | None) -> list[int]:
        """Return ranks that were asked for; raise where one does not exist or live."""
        self.check_running()
        if targets is None:
            chosen = list(range(len(self)))
        else:
            chosen = [targets] if isinstance(targets, int) else list(targets)
        if not chosen or any(rank not in range(len(self)) for rank in chosen):
            raise IndexError(
                f"expected ranks from 0 to {len(self) - 1}, got {targets!r}"
            )
        if set(chosen) & set(self.dead()):
            self.check_alive()
        return chosen

    def check_alive(self) -> None:
        """Raise RankError if ranks are dead, or the world is stopped."""
        self.check_running()
        dead = self.dead()
        if dead:
            ends = ", ".join(
                f"{tag([r])} {self.ending(r)}{self.place(r)}" for r in dead
            )
            raise RankError(f"dead: {ends}\n  {report.how_to_go_on(self, dead)}")

    def check_running(self) -> None:
        """Raise RankError if the world is stopped."""
        if self.stopped:
            raise RankError("the ranks have been stopped: call launch() again")


def rebuilt(reply: bytes | BaseException) -> Any:
    """Return the value in a reply, or what was raised on the rank or here."""
    if isinstance(reply, BaseException):
        return reply
    try:
        return unpack(reply)
    except CannotSend as error:
        return error


def errors_of(replies: dict[int, Any]) -> dict[int, BaseException]:
    """Return what ranks raised, by rank."""
    return {
        rank: reply
        for rank, reply in replies.items()
        if isinstance(reply, BaseException)
    }
