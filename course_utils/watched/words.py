"""The reports of a script, as every rank writes them."""

from __future__ import annotations

from dataclasses import replace
from zlib import crc32

from course_utils.stuck import RankState, report
from course_utils.text import folded

Hosts = list[str] | None  # of all ranks, where they run on several


def of_stuck(states: dict[int, RankState], patience: float, hosts: Hosts = None) -> str:
    """Report ranks that wait in vain; patience: seconds that they did, at least."""
    return wrapped(report.stuck(states, {}, "", patience, hosts))


def of_failure(
    states: dict[int, RankState], rank: int, block: str, hosts: Hosts = None
) -> str:
    """Report an error of a rank with what the others do, and with theirs."""
    states = {**states, rank: replace(states[rank], kind="failed", error=block)}
    errors = {r: s.error for r, s in states.items() if s.kind == "failed"}
    going_on = {r: s for r, s in states.items() if s.kind != "finished"}
    return wrapped(report.stuck(going_on, errors, "", 0, hosts))


def of_death(rank: int, ending: str, last: RankState, hosts: Hosts = None) -> str:
    """Report that the process of a rank ended, and how; last: what it last did."""
    seen = f"in {last.name}{last.place}" if last.call else last.place.strip()
    at = report.host_of([rank], hosts)
    text = f"[rank {rank}] died{f' on {at}' if at else ''}: {ending}"
    return text + (f"\n  last seen {seen}" if seen else "")


def name_of(text: str) -> str:
    """Return a short name for a report, the same on every rank."""
    return f"{crc32(text.encode()):08x}"


def wrapped(text: str) -> str:
    """Break long sentences between words."""
    return "\n".join(part for line in text.splitlines() for part in folded(line))
