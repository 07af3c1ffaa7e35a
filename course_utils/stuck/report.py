"""Reports of cells that could not end, as the cell's error shows them."""

from __future__ import annotations

import re
from typing import Protocol

from course_utils.stuck.causes import likely_cause
from course_utils.stuck.states import RankState, awaited, lines, waits_for
from course_utils.text import indent, is_cell, merge, readable, tag, these_ranks

FRAME = re.compile(r'^\s*File "([^"]+)", line (\d+)')
HOUSEKEEPING = re.compile(
    r"KernelNanny|UNKNOWN CONTROL MESSAGE|^Output for engine \d"
    r"|^(Current thread|Thread) 0x|^Extension modules|<invalid frame>"
)
BROKEN = (  # what gloo, or MPI, says of a process group that is of no use any more
    "failed to pass monitoredBarrier",
    "successfully reached monitoredBarrier, but received errors",
    "Timed out waiting",
    "Connection closed by peer",
    "Connection reset by peer",
    "Application timeout caused pair closure",
    "mpi: the group failed",
)


class World(Protocol):
    """What reports ask of the processes behind the ranks."""

    def __len__(self) -> int: ...

    def ending(self, rank: int) -> str:
        """Say how the process of a rank ended."""

    def last_words(self, rank: int) -> str:
        """Return the end of what it wrote."""


def is_broken(message: str) -> bool:
    """Tell whether an error means that the process group is of no use any more."""
    return any(sign in message for sign in BROKEN)


def stuck(
    states: dict[int, RankState],
    errors: dict[int, str],
    source: str,
    patience: float,
    hosts: list[str] | None = None,
) -> str:
    """Report a cell, or a script, in which ranks wait in vain.

    errors: of the ranks that failed, as short blocks.
    source: of the cell; patience: seconds that they waited at least, 0 if unknown.
    hosts: of all ranks, where they run on several.
    """
    if errors:
        said = []
        for ranks, text in merge(errors):
            at = host_of(ranks, hosts)
            said.append(f"{tag(ranks)} {f'on {at}: ' if at else ''}{text}")
        left = {r: s for r, s in states.items() if s.kind != "failed"}
        return "\n".join([*said, *indent("\n".join(lines(left)))])
    cause = likely_cause(states, source)
    text = [f"stuck: {waits_for(states)}{on_hosts(awaited(states), hosts)}"]
    waited = f"for {patience:g} s" if patience else ""
    text += indent("\n".join(lines(states, waited)))
    if cause:
        text.append(f"  likely cause: {cause}")
    return "\n".join(text)


def on_hosts(ranks: list[int], hosts: list[str] | None) -> str:
    """Say where ranks run, as in ", on node2"; "" on one host, or where unknown."""
    named = names_of(ranks, hosts)
    return f", on {', '.join(named)}" if named else ""


def host_of(ranks: list[int], hosts: list[str] | None) -> str:
    """Return the host where ranks run; "" for several, and where all run on one."""
    named = names_of(ranks, hosts)
    return named[0] if len(named) == 1 else ""


def names_of(ranks: list[int], hosts: list[str] | None) -> list[str]:
    """Return the hosts where ranks run, each once, as far as they are known."""
    return list(dict.fromkeys(hosts[r] for r in ranks if hosts[r])) if hosts else []


def interrupted(states: dict[int, RankState]) -> str:
    """Report a cell that was interrupted by hand."""
    return "\n".join(["interrupted:", *indent("\n".join(lines(states)))])


def died(control: World, dead: list[int]) -> str:
    """Report ranks that ended, with the last words of each.

    The others are not mentioned: whether they wait or fail first is chance.
    """
    text = []
    for host in dict.fromkeys(control.host(r) for r in dead if control.is_lost(r)):
        ranks = [rank for rank in dead if control.host(rank) == host]
        text.append(f"{tag(ranks)} lost: host {host} is out of reach")
    for rank in dead:
        if control.is_lost(rank):
            continue
        text.append(f"{tag([rank])} died{control.place(rank)}: {control.ending(rank)}")
        words = own_words(control.last_words(rank))
        if words:
            text += indent("\n".join(["its last words:", *indent(words)]))
    return "\n".join(text)


def own_words(log: str, most: int = 8) -> str:
    """Return what a log says of the rank itself: no stacks of libraries."""
    kept = []
    for line in log.splitlines():
        frame = FRAME.search(line)
        if frame and is_cell(frame[1]):
            kept.append(f"at line {frame[2]} of the cell")
        elif line.strip() and not frame and not HOUSEKEEPING.search(line):
            kept.append(readable(line))
    return "\n".join(kept[-most:])


def how_to_go_on(control: World, dead: list[int]) -> str:
    """Say what can be done about dead ranks."""
    return (
        f"ranks.repair() brings in a new process at {these_ranks(dead)}, "
        f"ranks.shrink() goes on with the other {len(control) - len(dead)}"
    )
