"""A world for one case of an exercise, in place of the learner's own.

The learner's process groups are set aside, not destroyed: they stay connected, and
come back with every sub-group. torch has no public call for that; this uses the
fields of `torch.distributed.distributed_c10d._world`, as its own tests do.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

from IPython import get_ipython
from torch import distributed as dist
from torch.distributed import distributed_c10d as c10d

from course_utils import guard, process_group

TABLES = (
    "pg_map",
    "pg_names",
    "pg_group_ranks",
    "pg_backend_config",
    "pg_to_tag",
    "tags_to_pg",
    "pg_coalesce_state",
)
SIZES = ("WORLD_SIZE", "LOCAL_WORLD_SIZE")


def enter(
    world_size: int, backend: str | None, timeout: float, store: str | tuple[str, int]
) -> None:
    """Set the learner's world aside and join one of the first `world_size` ranks.

    backend: None leaves the process group to the exercise.
    timeout: seconds after which a collective that waits fails, also in groups that
        the exercise makes without one.
    store: as in `process_group.init`.
    """
    kernel = get_ipython().kernel
    if getattr(kernel, "set_aside", None):
        leave()
    kernel.set_aside = {
        "groups": take_groups(),
        "environment": {name: os.environ[name] for name in SIZES},
        "guarded": hasattr(dist.all_gather, "unguarded"),
        "timeout": c10d.default_pg_timeout,
    }
    os.environ.update({n: str(min(int(os.environ[n]), world_size)) for n in SIZES})
    guard.install()  # an error, not wrong numbers or an abort
    c10d.default_pg_timeout = timedelta(seconds=timeout)
    if backend is not None:
        process_group.init(backend, timeout, store)


def leave() -> None:
    """Leave the world of the case, if there is one, and bring the learner's back."""
    kernel = get_ipython().kernel
    aside: dict[str, Any] | None = getattr(kernel, "set_aside", None)
    if aside is None:
        return
    process_group.destroy()
    put_groups(aside["groups"])
    os.environ.update(aside["environment"])
    if not aside["guarded"]:
        guard.uninstall()
    c10d.default_pg_timeout = aside["timeout"]
    kernel.set_aside = None


def take_groups() -> dict[str, Any]:
    """Take all process groups out of torch's tables; return them."""
    world = c10d._world
    taken = {name: getattr(world, name).copy() for name in TABLES}
    taken |= {"default": world.default_pg, "count": world.group_count}
    for name in TABLES:
        getattr(world, name).clear()
    world.group_count = 0
    c10d._update_default_pg(None)
    c10d._unregister_all_process_groups()
    return taken


def put_groups(taken: dict[str, Any]) -> None:
    """Put back what `take_groups` took."""
    world = c10d._world
    for name in TABLES:
        table = getattr(world, name)
        table.clear()
        table.update(taken[name])
    world.group_count = taken["count"]
    c10d._update_default_pg(taken["default"])
    for group, name in world.pg_names.items():
        c10d._register_process_group(name, group)
