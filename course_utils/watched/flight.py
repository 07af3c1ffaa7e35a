"""Collectives that run on a GPU, from torch's flight recorder.

With nccl a call returns at once, and what waits is a kernel. The recorder has an entry
for each collective, with the stack that began it; one that is not retired is under way.
Source of the fields: torch's tutorial on the flight recorder, format 2.10.
"""

from __future__ import annotations

from typing import Any

from course_utils.text import own_places

BACKEND = "nccl:"


def under_way(dump: dict[str, Any]) -> dict[str, Any] | None:
    """Return the oldest collective of nccl that has not ended; None if there is none.

    dump: of the flight recorder, with the active entries at least.
    """
    entries = [
        entry
        for entry in dump.get("entries", ())
        if entry["profiling_name"].startswith(BACKEND)
        if entry["state"] != "completed" and not entry.get("retired")
    ]
    return min(entries, key=lambda entry: entry["record_id"], default=None)


def called(entry: dict[str, Any]) -> dict[str, Any]:
    """Return what a report says of a collective: its name, group, and place.

    way: the user's lines on the way to it, innermost first.
    """
    name = entry["profiling_name"].removeprefix(BACKEND).split()[0]
    frames = entry.get("frames", ())
    own = own_places([frame["filename"] for frame in frames])
    way = [(frames[i]["filename"], frames[i]["line"]) for i in own]
    return {
        "call": name.lstrip("_"),
        "group_name": entry["process_group"][0],
        "way": way,
    }


def ranks_of(dump: dict[str, Any], group: str) -> list[int] | None:
    """Return the ranks of a group in a dump; None if they are not there."""
    written = dump.get("pg_config", {}).get(group, {}).get("ranks", "")
    inside = written.strip("[] ")
    return [int(rank) for rank in inside.split(",")] if inside else None


def identity(entry: dict[str, Any]) -> tuple[str, int, int]:
    """Return what tells a collective from all others of its rank."""
    group = entry["process_group"][0]
    return group, entry["collective_seq_id"], entry["p2p_seq_id"]
