"""What each rank is doing in a cell, and how a report says it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from course_utils.text import merge, tag, these_ranks

POINT_TO_POINT = ("send", "recv", "isend", "irecv")


@dataclass(frozen=True)
class RankState:
    """What one rank is doing.

    kind: "finished", "missed" (finished without the call in which others wait),
        "failed", "died", "waits", "runs", "stopped" (by a signal, so that it
        cannot answer) or "absent" (the cell did not run there).
    call, peers, group: of a rank that waits, the collective it is in, the ranks
        it names, and the ranks of its sub-group, None for all.
    line, text: where it is in the cell, from 1; 0 and "" where that is unknown.
    error: of a rank that failed, its error as a short block.
    ending: of a rank that died, how, as in "signal 9".
    """

    kind: str
    call: str = ""
    peers: dict[str, int] = field(default_factory=dict)
    group: tuple[int, ...] | None = None
    line: int = 0
    text: str = ""
    error: str = ""
    ending: str = ""

    @property
    def name(self) -> str:
        """The call with the ranks it names, as in "broadcast(src=0)"."""
        named = {k: v for k, v in self.peers.items() if not k.startswith("group_")}
        inside = ", ".join(f"{k}={v}" for k, v in named.items())
        if self.group is not None:
            inside += f"{', ' if inside else ''}group of {these_ranks(self.group)}"
        return f"{self.call}({inside})" if inside else self.call

    @property
    def place(self) -> str:
        """The line of the cell, as in " at line 2", or nothing."""
        return f" at line {self.line}" if self.line else ""


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
        "absent": "did not run this cell",
    }[state.kind]


def lines(states: dict[int, RankState], waited: str = "") -> list[str]:
    """Return one line for each group of ranks that do the same."""
    alike = merge({rank: replace(state, text="") for rank, state in states.items()})
    return [
        f"{tag(ranks)} {sentence(state, len(ranks) > 1, waited)}"
        for ranks, state in alike
    ]


def having(states: dict[int, RankState], *kinds: str) -> list[int]:
    """Return the ranks whose state is one of `kinds`."""
    return [rank for rank, state in states.items() if state.kind in kinds]


def waits_for(states: dict[int, RankState]) -> str:
    """Say in one line who waits for whom."""
    waiting = having(states, "waits")
    others = [r for r in states if r not in waiting]
    verb = "waits" if len(waiting) == 1 else "wait"
    if others:
        return f"{these_ranks(waiting)} {verb} for {these_ranks(others)}"
    if len(waiting) == 1:
        return f"{these_ranks(waiting)} waits for nobody that will come"
    return f"{these_ranks(waiting)} wait for one another"
