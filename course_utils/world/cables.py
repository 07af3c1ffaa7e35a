"""Pull and plug the cables of hosts inside this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from course_utils.engines import InNamespaces

if TYPE_CHECKING:
    from course_utils.world.world import World


def pull(world: World, host: str, after: float) -> None:
    """Pull the cable of a host, `after` seconds from now."""
    if not isinstance(after, int | float) or not 0 <= after < float("inf"):
        raise ValueError(f"after: expected seconds from 0, got {after!r}")
    cluster_of(world, host).plug(host, on=False, after=after)


def plug(world: World, host: str) -> None:
    """Plug the cable of a host in again."""
    cluster_of(world, host).plug(host, on=True)


def cluster_of(world: World, host: str) -> InNamespaces:
    """Return the cluster that has a host; raise ValueError if it has no such cable."""
    world.check_running()
    cluster = world.cluster
    if not isinstance(cluster, InNamespaces):
        raise ValueError(
            "only hosts inside this machine have a cable that can be pulled: "
            f"launch({len(world)}, hosts=2) makes them"
        )
    if host not in cluster.names:
        raise ValueError(
            f"host: expected {' or '.join(map(repr, cluster.names))}, got {host!r}"
        )
    return cluster
