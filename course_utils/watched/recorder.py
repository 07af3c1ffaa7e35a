"""What this rank waits for on its GPU, from look to look."""

from __future__ import annotations

import pickle
import sys
import time
from collections.abc import Callable
from typing import Any

from course_utils.text import file_named
from course_utils.watched.flight import called, identity, ranks_of, under_way


def dumped() -> dict[str, Any]:
    """Return the active entries of the flight recorder of this process."""
    from torch._C import _distributed_c10d as c10d

    return pickle.loads(c10d._dump_fr_trace(True, True, True))


class Recorder:
    """Notice a collective that goes on and on.

    dump: returns what the flight recorder of this process holds.
    """

    def __init__(self, dump: Callable[[], dict[str, Any]] = dumped) -> None:
        self._dump = dump
        self._seen: tuple[str, int, int] | None = None
        self._since = 0.0

    def look(self) -> dict[str, Any] | None:
        """Return the state of a rank whose GPU waits, as `Lookout.look` does."""
        if not uses_gpus():
            return None
        dump = self._dump()
        entry = under_way(dump)
        if entry is None or identity(entry) != self._seen:
            self._seen = identity(entry) if entry else None
            self._since = time.monotonic()
            return None
        about = called(entry)
        path, line = about["way"][0] if about["way"] else ("", 0)
        world = about["group_name"] == "0"
        return {
            **about,
            "kind": "waits",
            "waited": time.monotonic() - self._since,
            "group": None if world else ranks_of(dump, about["group_name"]),
            "line": line,
            "file": file_named(path) if path else "",
        }


def uses_gpus() -> bool:
    """Tell whether a process group of this process runs on GPUs."""
    dist = sys.modules.get("torch.distributed")
    if dist is None or not dist.is_initialized():
        return False
    configured = list(dist.distributed_c10d._world.pg_backend_config.values())
    return any("nccl" in str(backend) for backend in configured)
