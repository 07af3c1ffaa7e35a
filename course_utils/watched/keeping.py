"""Keep the store up that rank 0 has for all ranks, where no torchrun keeps it.

It goes with the process of rank 0. If that ended first, the ranks that wait for it
could not tell one another so.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from course_utils.watched.verdict import ENDED, STALE, Observed

PERIOD = 0.25  # seconds between looks at the others
KEPT_BY_AGENT = "TORCHELASTIC_USE_AGENT_STORE"  # torchrun's variable


def own_store(rank: int) -> Any | None:
    """Return the store of the process group if this process keeps it for all ranks."""
    if rank != 0 or os.environ.get(KEPT_BY_AGENT) == "True":
        return None
    dist = sys.modules.get("torch.distributed")
    if dist is None or not dist.is_initialized():
        return None
    store = dist.distributed_c10d._get_default_store()
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    return store if hasattr(store, "port") else None


def going_on(seen: Observed, rank: int, since: float) -> bool:
    """Tell whether ranks other than this one are alive and have not ended.

    since: when this began to be asked; who is not heard for long has gone.
    """
    settling = time.monotonic() - since < STALE
    return any(
        seen.told.get(other, {}).get("kind") not in ENDED
        and (settling or seen.fresh(other))
        for other in range(seen.world_size)
        if other != rank
    )
