"""The likely cause of a stuck cell, where the pattern is known."""

from __future__ import annotations

import ast
import linecache
import os

from course_utils.read import condition, leaves_before, never_came, responsible
from course_utils.stuck.states import COUNTED, POINT_TO_POINT, RankState, having
from course_utils.text import these_ranks

GONE = ("finished", "missed")


def likely_cause(states: dict[int, RankState], source: str) -> str:
    """Name the likely cause of a stuck cell in one sentence; "" if unknown.

    states: of every rank of the world, by rank.
    source: of the cell.
    """
    waiting = {r: states[r] for r in having(states, "waits")}
    if not waiting:
        return ""
    for cause in (
        stopped,
        targets,
        roots,
        operations,
        groups,
        numbers,
        messages,
        absent,
    ):
        found = cause(states, waiting, source)
        if found:
            return found
    return ""


def stopped(states, waiting, source) -> str:
    """A rank is stopped, or sleeps and lets no thread of Python run."""
    still = having(states, "stopped")
    if still:
        were = "were" if len(still) > 1 else "was"
        return f"{these_ranks(still)} {were} stopped from outside, as by SIGSTOP"
    mute = having(states, "silent")
    if mute:
        waits = "wait" if len(mute) > 1 else "waits"
        return f"{these_ranks(mute)} {waits} in C++ without giving Python's lock away"
    return ""


def targets(states, waiting, source) -> str:
    """The cell ran on some ranks only."""
    absent_ranks = having(states, "absent")
    if absent_ranks and not having(states, *GONE):
        return (
            f"the cell ran on {these_ranks(sorted(set(states) - set(absent_ranks)))} "
            "only (--targets), and a collective needs every rank of its group"
        )
    return ""


def roots(states, waiting, source) -> str:
    """The ranks name different roots in the same collective."""
    calls = {s.call for s in waiting.values()}
    if len(calls) != 1 or calls & set(POINT_TO_POINT):
        return ""
    named = {r: s.peer for r, s in waiting.items()}
    if len(set(named.values())) > 1:
        said = ", ".join(f"rank {r} names {root}" for r, root in named.items())
        return f"the ranks disagree on the root: {said}"
    return ""


def operations(states, waiting, source) -> str:
    """The ranks are in different collectives."""
    first: dict[str, int] = {}
    for rank, state in waiting.items():
        if state.call not in POINT_TO_POINT and not waits_for_work(state):
            first.setdefault(state.name, rank)
    if len({name.partition("(")[0] for name in first}) < 2:
        return ""
    said = ", ".join(
        f"rank {rank} is in {name}{waiting[rank].place}" for name, rank in first.items()
    )
    return f"the ranks call collectives in a different order: {said}"


def waits_for_work(state: RankState) -> bool:
    """Tell whether a rank waits for what it began before, by ``work.wait()``."""
    return state.call.endswith("wait")


def groups(states, waiting, source) -> str:
    """The ranks wait in the same collective of different groups."""
    collective = [s for s in waiting.values() if s.call not in POINT_TO_POINT]
    if len({s.group for s in collective}) > 1:
        return "the ranks call the collective on different groups"
    return ""


def numbers(states, waiting, source) -> str:
    """The GPUs are in different calls of one collective: somebody left one out."""
    counted = {r: s.number for r, s in waiting.items() if s.number}
    if len(set(counted.values())) < 2:
        return ""
    said = ", ".join(f"rank {rank} in number {n}" for rank, n in counted.items())
    return f"the ranks are in different calls, so some left one out: {said}"


def messages(states, waiting, source) -> str:
    """A message is received that nobody sends, or the other way round."""
    mine = {r: s for r, s in waiting.items() if s.call in POINT_TO_POINT}
    if not mine:
        return ""
    kinds = {s.call for s in mine.values()}
    if len(mine) == len(states) and kinds <= {"recv", "irecv"}:
        return "every rank receives first, so nobody comes to its send"
    if len(mine) == len(states) and kinds <= {"send", "isend"}:
        return "every rank sends first, so nobody comes to its recv"
    rank, state = next(iter(mine.items()))
    receives = state.call in ("recv", "irecv")
    peer = state.peer
    if peer is None:
        return f"rank {rank} receives from any rank, and none sends"
    verb = "sends" if receives else "receives"
    if states[peer].kind == "waits":
        return (
            f"rank {rank} expects that rank {peer} {verb}, but rank {peer} waits "
            f"in {states[peer].name}{states[peer].place}"
        )
    return f"rank {rank} expects that rank {peer} {verb}, which it never does"


def absent(states, waiting, source) -> str:
    """Some ranks never come to the call: a branch, or a loop that ends early."""
    rank, state = next(iter(waiting.items()))
    gone = having(states, "missed", "absent")
    finished = having(states, "finished")
    if not gone and finished and state.call in COUNTED:
        return (
            f"{these_ranks(finished)} ended the call in which {these_ranks(waiting)} "
            f"{'wait' if len(waiting) > 1 else 'waits'}: the ranks may disagree on "
            "shape or dtype"
        )
    gone = gone or finished
    if not gone or not state.line:
        return ""
    for line, text, path in places(state, source):
        found = why_not(line, text, path, state.call, list(waiting), gone)
        if found:
            return found
    left = f"left the {'script' if state.file else 'cell'} before {state.call}"
    return f"{these_ranks(gone)} {left}"


def places(state: RankState, source: str) -> list[tuple[int, str, str]]:
    """Return where a rank is and came by: line, source, and path where it is a file."""
    if not state.way:
        return [(line, source, "") for line in (state.line, state.outer) if line]
    return [(n, "".join(linecache.getlines(path)), path) for path, n in state.way]


def why_not(
    line: int, source: str, path: str, call: str, waiting: list[int], gone: list[int]
) -> str:
    """Say why some ranks do not come to a line to which others came; "" if unknown."""
    of_file = f" of {os.path.basename(path)}" if path else ""
    found, on_rank = responsible(source, line)
    left = leaves_before(source, line)
    if isinstance(found, ast.If) and (on_rank or not path):
        under = condition(found, line)
        return (
            f"line {line}{of_file} stands under {under}, so "
            f"{these_ranks(gone)} {never_came(call)}"
        )
    if left is not None:
        under = f"line {left.body[-1].lineno}{of_file}, under {condition(left, 0)}"
        return f"{these_ranks(gone)} left before {call} at {under}"
    if found is not None and not isinstance(found, ast.If):
        return (
            f"the loop at line {found.lineno}{of_file} makes more rounds on "
            f"{these_ranks(waiting)} than on {these_ranks(gone)}"
        )
    return ""
