"""Set the process groups of this process aside, and bring them back.

They stay connected meanwhile, and come back with every sub-group. torch has no
public call for that; this uses the fields of
`torch.distributed.distributed_c10d._world`, as its own tests do.
"""

from __future__ import annotations

from typing import Any

from torch.distributed import distributed_c10d as c10d

TABLES = (
    "pg_map",
    "pg_names",
    "pg_group_ranks",
    "pg_backend_config",
    "pg_to_tag",
    "tags_to_pg",
    "pg_coalesce_state",
)


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
