"""Where the ranks of a job meet: the store that its process group uses."""

from __future__ import annotations

import json
import os
import socket
import sys
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

LIMIT = timedelta(seconds=10)  # for one request to the store
KNOCK = 1.0  # seconds for a connection, before the store itself is asked


@dataclass(frozen=True)
class Meeting:
    """A store, and who comes there.

    host, port: of a TCPStore; path: of a FileStore, else "".
    """

    rank: int
    world_size: int
    host: str = ""
    port: int = 0
    path: str = ""

    def store(self) -> Any | None:
        """Connect to the store; None while nobody listens there."""
        from torch import distributed as dist

        if self.path:
            return dist.FileStore(self.path, -1) if os.path.exists(self.path) else None
        if not listens(self.host, self.port):
            return None  # a TCPStore would wait, and warn on standard error
        return dist.TCPStore(
            self.host, self.port, None, False, LIMIT, wait_for_workers=False
        )

    def written(self) -> str:
        """Write it as text, which `read` reads."""
        return json.dumps(asdict(self))


def read(text: str) -> Meeting:
    """Return the meeting that `written` wrote."""
    return Meeting(**json.loads(text))


def listens(host: str, port: int) -> bool:
    """Tell whether somebody takes connections there."""
    try:
        socket.create_connection((host, port), KNOCK).close()
    except OSError:
        return False
    return True


def of_environment() -> Meeting | None:
    """Return the meeting that torchrun names in the environment; None if it does not.

    torchrun keeps the store itself, so it is there before any rank is.
    """
    try:
        rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        return Meeting(
            rank, size, os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        )
    except (KeyError, ValueError):
        return None


def of_arguments(given: dict[str, Any]) -> Meeting | None:
    """Return the meeting that the arguments of init_process_group name."""
    usual = of_environment()
    rank, size = given.get("rank", -1), given.get("world_size", -1)
    if usual is not None:
        rank = usual.rank if rank < 0 else rank
        size = usual.world_size if size < 0 else size
    if given.get("store") is not None:
        return of_store(given["store"], rank, size)
    method = given.get("init_method") or "env://"
    parts = urlsplit(method)
    if parts.scheme == "tcp" and parts.port:
        return Meeting(rank, size, parts.hostname or "", parts.port)
    if parts.scheme == "file":
        return Meeting(rank, size, path=parts.path)
    return usual


def of_store(store: Any, rank: int, size: int) -> Meeting | None:
    """Return the meeting at a store; None for one that has no address."""
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    if hasattr(store, "port"):
        return Meeting(rank, size, store.host, store.port)
    if hasattr(store, "path"):
        return Meeting(rank, size, path=store.path)
    return None


def of_group() -> Meeting | None:
    """Return the meeting at the store of the process group that is up."""
    dist = sys.modules.get("torch.distributed")
    if dist is None or not dist.is_initialized():
        return None
    store = dist.distributed_c10d._get_default_store()
    return of_store(store, dist.get_rank(), dist.get_world_size())
