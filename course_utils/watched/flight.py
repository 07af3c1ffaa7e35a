"""Collectives that run on a GPU, from torch's flight recorder.

With nccl a call returns at once, and what waits is a kernel. The recorder has an entry
for each collective, with the stack that began it; one that is not retired is under way.
Source of the fields: torch's tutorial on the flight recorder, format 2.10. This was
written after it, and has not been tried on a GPU yet.
"""

from __future__ import annotations

import re
from typing import Any

from course_utils.text import own_places

BACKEND = "nccl:"
MESSAGE = re.compile(
    r"(send \d+->|recv \d+<-)(\d+)"
)  # and the other side, in its group


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

    number: of the collective in its group; peers: of a message, the other side.
    way: the user's lines on the way to it, innermost first.
    """
    text = entry["profiling_name"].removeprefix(BACKEND)
    name, message = text.split()[0], MESSAGE.match(text)
    side = "group_dst" if name == "send" else "group_src"
    frames = entry.get("frames", ())
    own = own_places([frame["filename"] for frame in frames])
    way = [(frames[i]["filename"], frames[i]["line"]) for i in own]
    return {
        "call": name.lstrip("_"),
        "peers": {side: int(message[2])} if message else {},
        "number": 0 if message else entry["collective_seq_id"],
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
