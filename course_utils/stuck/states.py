"""What each rank is doing in a cell, and how a report says it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from course_utils.text import merge, tag, these_ranks

POINT_TO_POINT = ("send", "recv", "isend", "irecv")
COUNTED = (  # calls that raise the sequence number of their group
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_gather_single",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "broadcast_object_list",
    "gather",
    "gather_object",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_tensor",
    "scatter",
    "scatter_object_list",
)


@dataclass(frozen=True)
class RankState:
    """What one rank is doing.

    kind: "finished", "missed" (finished without the call in which others wait),
        "failed", "died", "waits", "runs", "stopped" (by a signal, so that it
        cannot answer), "silent" (it sleeps, and does not answer), "unheard" (it does
        not answer, and nobody knows why) or "absent" (the cell did not run there).
    call, peers, group: of a rank that waits, the collective it is in, the ranks
        it names, and the ranks of its sub-group, None for all.
    number: of the collective among those of its group, where a GPU is in it, which may
        be far behind the script; else 0.
    line, text: where it is in the cell, from 1; 0 and "" where that is unknown.
    outer: the line of the cell from which it was called, outside all functions.
    file: in which the line stands, where that is no cell.
    way: where a script came by on the way there: path and line, innermost first.
    error: of a rank that failed, its error as a short block.
    ending: of a rank that died, how, as in "signal 9".
    """

    kind: str
    call: str = ""
    peers: dict[str, int] = field(default_factory=dict)
    group: tuple[int, ...] | None = None
    number: int = 0
    line: int = 0
    text: str = ""
    outer: int = 0
    file: str = ""
    way: tuple[tuple[str, int], ...] = ()
    error: str = ""
    ending: str = ""

    @property
    def named(self) -> dict[str, int]:
        """The ranks of the world that the call names, by "src" and "dst"."""
        found = {k: v for k, v in self.peers.items() if k in ("src", "dst")}
        for key in ("src", "dst"):
            at = self.peers.get(f"group_{key}")
            if at is not None and key not in found:
                found[key] = self.group[at] if self.group else at
        return found

    @property
    def peer(self) -> int | None:
        """The root of a collective, or the other side of a message."""
        return next(iter(self.named.values()), None)

    @property
    def name(self) -> str:
        """The call with the ranks it names, as in "broadcast(src=0)"."""
        inside = [f"{k}={v}" for k, v in self.named.items()]
        if self.group is not None:
            inside.append(f"group of {these_ranks(self.group)}")
        if self.number:
            inside.append(f"number {self.number}")
        return f"{self.call}({', '.join(inside)})" if inside else self.call

    @property
    def place(self) -> str:
        """The line, as in " at line 2" or " at line 2 of train.py", or nothing."""
        if not self.line:
            return ""
        return f" at line {self.line}" + (f" of {self.file}" if self.file else "")


def sentence(state: RankState, many: bool, waited: str) -> str:
    """Say what a rank, or many, are doing; `waited` as in "for 5 s"."""
    if state.kind == "waits":
        verb = "wait" if many else "waits"
        return f"{verb} in {state.name}{state.place} {waited}".rstrip()
    return {
        "runs": f"compute{'' if many else 's'}{state.place}",
        "finished": "finished",
        "missed": "finished without calling it",
        "failed": "failed",
        "died": f"died ({state.ending})",
        "stopped": f"{'are' if many else 'is'} stopped and cannot answer",
        "silent": f"{'do' if many else 'does'} not answer, and "
        f"{'do' if many else 'does'} not compute",
        "unheard": f"{'do' if many else 'does'} not answer",
        "absent": "did not run this cell",
    }[state.kind]


def lines(states: dict[int, RankState], waited: str = "") -> list[str]:
    """Return one line for each group of ranks that do the same."""
    seen = {r: replace(s, text="", outer=0, way=()) for r, s in states.items()}
    return [
        f"{tag(ranks)} {sentence(state, len(ranks) > 1, waited)}"
        for ranks, state in merge(seen)
    ]


def having(states: dict[int, RankState], *kinds: str) -> list[int]:
    """Return the ranks whose state is one of `kinds`."""
    return [rank for rank, state in states.items() if state.kind in kinds]


def waits_for(states: dict[int, RankState]) -> str:
    """Say in one line who waits for whom."""
    waiting = having(states, "waits")
    if not waiting:
        still = [r for r in states if r not in having(states, "finished", "missed")]
        return f"{these_ranks(still)} {'do' if len(still) > 1 else 'does'} not go on"
    others = awaited(states)
    verb = "waits" if len(waiting) == 1 else "wait"
    if others:
        return f"{these_ranks(waiting)} {verb} for {these_ranks(others)}"
    if len(waiting) == 1:
        return f"{these_ranks(waiting)} waits for nobody that will come"
    return f"{these_ranks(waiting)} wait for one another"


def awaited(states: dict[int, RankState]) -> list[int]:
    """Return the ranks for which the others wait: those named, or those missing."""
    waiting = having(states, "waits")
    peers = {states[r].peer for r in waiting if states[r].call in POINT_TO_POINT}
    if len(waiting) == sum(states[r].call in POINT_TO_POINT for r in waiting):
        named = sorted(peers - {None, *waiting})
        if named:
            return named
    wanted = set().union(*(wants(r, states) for r in waiting))
    others = [r for r in states if r not in waiting and r in wanted]
    return [r for r in others if states[r].kind != "finished"] or others


def wants(rank: int, states: dict[int, RankState]) -> set[int]:
    """Return the ranks without one of which the call of a rank cannot go on."""
    state = states[rank]
    if state.call in POINT_TO_POINT and state.peer is not None:
        return {state.peer}
    return {*(state.group or states)} - {rank}
