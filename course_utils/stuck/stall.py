"""Watch a running cell, and notice when it can no longer end by itself."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import psutil

from course_utils.stuck.states import POINT_TO_POINT, RankState, having
from course_utils.stuck.watch import REQUEST
from course_utils.text import error_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from course_utils.engines import Control

FIRST_LOOK = 0.3  # seconds; most cells end before
PERIOD = 0.25  # seconds between looks
HEED = 0.05  # seconds between looks for an interrupt
ANSWER = 1.0  # seconds in which a rank has to answer a look
SETTLE = 1.0  # seconds a rank has to wait before another one's error counts
SLEEPY = 0.1  # CPU seconds a second, below which a rank does not compute
IDLE = 10_000  # bytes a second, below which a rank that waits moves no data
TOGETHER = 5.0  # seconds that all may take to meet, on a machine that is busy
SAME_CALL = 3  # times the patience: all in one collective may be a long transfer


def ask(
    control: Control, do: str, ranks: Iterable[int], limit: float, *args: object
) -> dict:
    """Ask the watch of ranks to "look" or to "free" them; see `watch`.

    args: what that is told beside.
    Returns the answers that came within `limit` seconds, by rank.
    """
    return control.request(REQUEST, {"do": do, "with": args}, ranks, limit)


class Watched:
    """A cell or call that runs on some ranks.

    result: ipyparallel's AsyncResult of it; targets: the ranks it runs on.
    patience: seconds that ranks may wait in vain.
    counted: whether the bytes that a group's connections move are known, as gloo's.
    """

    def __init__(
        self,
        control: Control,
        result,
        targets: list[int],
        patience: float,
        counted: bool = True,
    ) -> None:
        self.control, self.result, self.targets = control, result, targets
        self.patience, self.counted = patience, counted
        self.states: dict[int, RankState] = {}
        self._since: dict[int, tuple[str, float, int]] = {}  # token, clock, bytes
        self._spent: dict[int, tuple[float, float]] = {}  # clock, CPU seconds
        self._busy: list[int] = []  # at the last look
        self._changed = 0.0  # clock when a rank still ran, or had just ended

    def wait(
        self,
        live: Callable[[dict], None] | None = None,
        asked: Callable[[], bool] = bool,
    ) -> bool:
        """Wait for the end; return False as soon as it cannot come by itself.

        live: called with the states from time to time. asked: tells whether it is to
        end; then KeyboardInterrupt is raised.
        """
        if self._pause(FIRST_LOOK, asked):
            return not self.dead()
        while True:
            self.look()
            if self.result.done():
                return not self.dead()
            if self.dead() or self.stuck():
                return False
            if live is not None:
                live(self.states)
            self._pause(PERIOD, asked)

    def _pause(self, seconds: float, asked: Callable[[], bool]) -> bool:
        """Wait until all have replied, or for so long; return whether they have."""
        end = time.monotonic() + seconds
        while not self.result.wait(min(seconds, HEED)):
            if asked():
                raise KeyboardInterrupt
            if time.monotonic() >= end:
                return False
        return True

    def busy(self) -> list[int]:
        """Return the ranks that have not replied yet."""
        children = zip(self.targets, self.result._children, strict=True)
        return [rank for rank, child in children if not child.done()]

    def errors(self) -> dict[int, str]:
        """Return the errors of the ranks that failed, as short blocks."""
        children = zip(self.targets, self.result._children, strict=True)
        replies = {r: child.result() for r, child in children if child.done()}
        return {
            rank: error_text(reply)
            for rank, reply in replies.items()
            if isinstance(reply, BaseException)
        }

    def dead(self) -> list[int]:
        """Return the ranks whose engine ended meanwhile."""
        return [r for r in self.targets if self.control.is_dead(r)]

    def look(self) -> None:
        """Bring `states` up to date."""
        alive = [rank for rank in self.targets if not self.control.is_dead(rank)]
        able = [rank for rank in alive if not self.control.is_stopped(rank)]
        seen = ask(self.control, "look", able, ANSWER)
        busy = self.busy()
        self.states = {}
        for rank in range(len(self.control)):
            if self.control.is_dead(rank):
                ending = self.control.ending(rank)
                self.states[rank] = RankState("died", ending=ending)
            elif rank not in self.targets:
                self.states[rank] = RankState("absent")
            elif rank not in busy:
                self.states[rank] = self._ended(rank)
            else:
                self.states[rank] = self._going_on(rank, seen.get(rank))
        if having(self.states, "runs") or busy != self._busy:
            self._busy, self._changed = busy, time.monotonic()
        for rank in having(self.states, "finished"):
            if self._missed(seen, rank):
                self.states[rank] = RankState("missed")

    def _ended(self, rank: int) -> RankState:
        reply = self.result._children[self.targets.index(rank)].result()
        failed = isinstance(reply, BaseException)
        return RankState("failed" if failed else "finished")

    def _missed(self, seen: dict[int, dict], rank: int) -> bool:
        """Tell whether a rank ended before a collective in which another waits."""
        mine = seen.get(rank, {}).get("begun", {})
        for waiting in having(self.states, "waits"):
            name = seen[waiting]["group_name"]
            state = self.states[waiting]
            outside = state.group is not None and rank not in state.group
            if state.call in POINT_TO_POINT or outside or not name:
                continue
            if mine.get(name, 0) < seen[waiting]["begun"].get(name, 0):
                return True
        return False

    def _going_on(self, rank: int, seen: dict | None) -> RankState:
        now = time.monotonic()
        if seen is None:
            token = kind = self._mute(rank, now)
            state, moved = RankState(kind), 0
        else:
            token, moved = seen["token"], seen["moved"]
            state = RankState(
                "waits" if seen["call"] else "runs",
                call=seen["call"],
                peers=seen["peers"],
                group=tuple(seen["group"]) if seen["group"] else None,
                line=seen["line"],
                text=seen["text"],
                outer=seen["outer"],
                file=seen["file"],
            )
        before = self._since.get(rank)
        if before is None or before[0] != token or self._moves(before, now, moved):
            self._since[rank] = (token, now, moved)
        return state

    def _mute(self, rank: int, now: float) -> str:
        """Tell what a rank does that does not answer: its kind of state.

        It is "silent" if it sleeps in C++ without letting Python's threads run. One
        that computes there, or reads a library from disk, runs.
        """
        status, spent = self.control.activity(rank)
        before = self._spent.get(rank, (now, spent - 1.0))
        self._spent[rank] = (now, spent)
        if status == psutil.STATUS_STOPPED:
            return "stopped"
        if not status:
            return "unheard"
        idle = spent - before[1] < SLEEPY * (now - before[0])
        return "silent" if status == psutil.STATUS_SLEEPING and idle else "runs"

    def _moves(self, before: tuple[str, float, int], now: float, moved: int) -> bool:
        """Tell whether a rank that waits still sends or receives data."""
        speed = (moved - before[2]) / max(now - before[1], PERIOD)
        return self.counted and speed > IDLE

    def stuck(self) -> bool:
        """Tell whether all ranks that have not ended wait in vain."""
        open_ranks = having(self.states, "waits", "runs", "stopped", "silent")
        if not open_ranks or having(self.states, "runs", "unheard"):
            return False
        now = time.monotonic()
        since = max(self._since[rank][1] for rank in open_ranks)
        waited = now - max(since, self._changed)
        if having(self.states, "failed"):
            return waited >= min(SETTLE, self.patience)
        patience = self.patience
        if self._together():
            patience = max(SAME_CALL * patience, TOGETHER)
        return waited >= patience

    def _together(self) -> bool:
        """Tell whether every rank is in the same collective."""
        names = {s.name if s.kind == "waits" else "" for s in self.states.values()}
        return (
            len(names) == 1
            and not names & {"", "wait"}
            and not any("recv" in name or "send" in name for name in names)
        )
