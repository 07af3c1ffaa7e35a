"""The reports of a script, as every rank writes them."""

from __future__ import annotations

from dataclasses import replace
from zlib import crc32

from course_utils.stuck import RankState, report
from course_utils.text import folded


def of_stuck(states: dict[int, RankState], patience: float) -> str:
    """Report ranks that wait in vain; patience: seconds that they did, at least."""
    return wrapped(report.stuck(states, {}, "", patience))


def of_failure(states: dict[int, RankState], rank: int, block: str) -> str:
    """Report an error of a rank with what the others do, and with theirs."""
    states = {**states, rank: replace(states[rank], kind="failed", error=block)}
    errors = {r: s.error for r, s in states.items() if s.kind == "failed"}
    going_on = {r: s for r, s in states.items() if s.kind != "finished"}
    return wrapped(report.stuck(going_on, errors, "", 0))


def of_death(rank: int, ending: str, last: RankState) -> str:
    """Report that the process of a rank ended, and how; last: what it last did."""
    seen = f"in {last.name}{last.place}" if last.call else last.place.strip()
    return f"[rank {rank}] died: {ending}" + (f"\n  last seen {seen}" if seen else "")


def name_of(text: str) -> str:
    """Return a short name for a report, the same on every rank."""
    return f"{crc32(text.encode()):08x}"


def wrapped(text: str) -> str:
    """Break long sentences between words."""
    return "\n".join(part for line in text.splitlines() for part in folded(line))
