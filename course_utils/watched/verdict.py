"""Who waits in vain, from what every rank tells."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from course_utils.stuck import POINT_TO_POINT, RankState, wants

STALE = 3.0  # seconds without a sign of life after which nothing is known of a rank
SURE = 1.0  # seconds for which nothing has to change before it is reported
ANEW = 2  # beats: one may have been on its way
SAME_CALL = 3  # times the patience: all in one collective may be a long transfer
ENDED = ("finished", "missed", "failed", "died")
HELD = ("stopped", "silent")  # these will not go on by themselves


@dataclass(frozen=True)
class Suspicion:
    """Ranks that seem to wait in vain, those that ended, and when that was seen."""

    stuck: set[int]
    ended: dict[int, str]
    beats: dict[int, int]
    clock: float

    def same(self, later: Suspicion) -> bool:
        """Tell whether nothing has changed since."""
        return (self.stuck, self.ended) == (later.stuck, later.ended)

    def confirmed(self, later: Suspicion) -> bool:
        """Tell whether all of them have looked anew, and found the same."""
        anew = all(
            later.beats[r] >= self.beats[r] + ANEW for r in later.stuck & self.stuck
        )
        return self.same(later) and anew and later.clock - self.clock >= SURE


class Observed:
    """What the ranks told, and which of it is fresh.

    Clocks of machines differ, so only changes count: a rank is alive if the number
    of its beat has changed within the last seconds of one's own clock.
    """

    def __init__(self, world_size: int) -> None:
        self.world_size = world_size
        self.told: dict[int, dict[str, Any]] = {}
        self._beats: dict[int, tuple[int, float]] = {}  # beat, clock of its change
        self._changed: set[int] = set()  # ranks whose beat was seen to change

    def update(self, told: dict[int, dict[str, Any]]) -> None:
        """Take in what the ranks tell now."""
        now = time.monotonic()
        self.told = told
        for rank, state in told.items():
            before = self._beats.get(rank)
            if before is None or before[0] != state["beat"]:
                self._beats[rank] = (state["beat"], now)
                if before is not None:
                    self._changed.add(rank)

    def all_told(self) -> bool:
        """Tell whether every rank has told something: one may come late.

        Its connection to the store can take seconds, where torch asks a name server
        for the name of the other end, and none answers.
        """
        return len(self.told) == self.world_size

    def fresh(self, rank: int) -> bool:
        """Tell whether a rank is known to be alive."""
        if rank not in self._changed:
            return False
        return time.monotonic() - self._beats[rank][1] < STALE

    def states(self) -> dict[int, RankState]:
        """Return the state of every rank; what is not known runs."""
        found = {}
        for rank in range(self.world_size):
            told = self.told.get(rank)
            if told is None or (told["kind"] not in ENDED and not self.fresh(rank)):
                found[rank] = RankState("runs")
            else:
                found[rank] = state_of(told)
        missed(found, self.told)
        return found

    def hosts(self) -> list[str] | None:
        """Return the host of every rank; see `hosts_of`."""
        return hosts_of(self.told, self.world_size)

    def suspicion(self, patience: float) -> Suspicion:
        """Return which ranks seem to wait for what cannot come any more."""
        states = self.states()
        waited = {rank: told["waited"] for rank, told in self.told.items()}
        stuck = in_vain(states, waited, patience)
        ended = {r: s.kind for r, s in states.items() if s.kind in (*ENDED, *HELD)}
        beats = {rank: self.told[rank]["beat"] for rank in stuck}
        return Suspicion(stuck, ended, beats, time.monotonic())


def hosts_of(told: dict[int, dict[str, Any]], world_size: int) -> list[str] | None:
    """Return the host of every rank, "" where it is not known; None for one host."""
    found = [told.get(rank, {}).get("host", "") for rank in range(world_size)]
    return found if len({*found} - {""}) > 1 else None


def state_of(told: dict[str, Any]) -> RankState:
    """Return the state that a rank tells."""
    group = told.get("group")
    return RankState(
        told["kind"],
        call=told.get("call", ""),
        peers=told.get("peers", {}),
        group=tuple(group) if group else None,
        number=told.get("number", 0),
        line=told.get("line", 0),
        file=told.get("file", ""),
        way=tuple((path, line) for path, line in told.get("way", ())),
        error=told.get("error", "") if told["kind"] == "failed" else "",
        ending=told.get("ending", ""),
    )


def missed(states: dict[int, RankState], told: dict[int, dict[str, Any]]) -> None:
    """Mark the ranks that finished before a collective in which another waits."""
    for waiting, state in list(states.items()):
        name = told.get(waiting, {}).get("group_name")
        if state.kind != "waits" or state.call in POINT_TO_POINT or not name:
            continue
        begun = told[waiting]["begun"].get(name, 0)
        for rank in wants(waiting, states):
            if states[rank].kind == "finished":
                if told[rank].get("begun", {}).get(name, 0) < begun:
                    states[rank] = RankState("missed")


def in_vain(
    states: dict[int, RankState], waited: dict[int, float], patience: float
) -> set[int]:
    """Return the ranks that wait for ranks that ended, or that wait in vain, too.

    waited: seconds of each rank in its call.
    """
    stuck = {
        rank
        for rank, state in states.items()
        if state.kind == "waits" and waited[rank] >= needed(rank, states, patience)
    }
    while True:
        hopeless = stuck | {r for r, s in states.items() if s.kind in (*ENDED, *HELD)}
        kept = {r for r in stuck if wants(r, states) <= hopeless}
        if kept == stuck:
            return stuck
        stuck = kept


def needed(rank: int, states: dict[int, RankState], patience: float) -> float:
    """Return how long a rank has to wait: longer where all are in its collective."""
    state = states[rank]
    others = {states[r].name for r in wants(rank, states)}
    alone = state.call in POINT_TO_POINT or state.call.endswith("wait")
    return patience if alone or others != {state.name} else SAME_CALL * patience
