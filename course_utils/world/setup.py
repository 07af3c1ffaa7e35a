"""Make engines the ranks of a world: order, environment, process group."""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from IPython import get_ipython

from course_utils.engines import LOOPBACK, Forked
from course_utils.world.rank import (
    become_rank,
    bound,
    call,
    environment,
    hold_port,
    place,
)

if TYPE_CHECKING:
    from course_utils.world.world import World


def make_world(world: World, backend: str | None) -> None:
    """Make the engines of a started cluster ranks.

    On one machine they initialise the process group as soon as they are ranks.

    backend: of the default process group; None to leave that to the learner.
    """
    if backend is not None:
        world.backend = backend
        world.device = "cuda" if "nccl" in backend else "cpu"
    if backend is None or not world.cluster.local:
        become_ranks(world)
        if backend is not None:
            init_process_group(world)
        return
    roles = roles_of(world)
    joined = dict.fromkeys(roles, joining(world))
    pids, _ = world.run_in_turn([(become_rank, roles), (call, joined)])
    world.pids.update(zip(roles, pids, strict=True))


def become_ranks(world: World, only: list[int] | None = None) -> None:
    """Give engines their rank, environment and watch.

    only: the ranks whose engine is new; all by default.
    """
    roles = roles_of(world, only)
    pids = world.run_each(become_rank, roles)
    world.pids.update(zip(roles, pids, strict=True))


def roles_of(world: World, only: list[int] | None = None) -> dict[int, tuple]:
    """Return the arguments of `become_rank` for those ranks that need it.

    Ranks are counted host by host, so that local ranks are consecutive.

    only: the ranks whose engine is new; all by default.
    """
    if only is None:
        world.hosts, world.addresses = places(world)
    everyone = only is None or 0 in only  # a new rank 0 is a new MASTER_PORT
    if everyone:
        world.master = world.addresses[0], reserve_port(world)
    hosts = world.hosts
    per_host, seen, roles = Counter(hosts), Counter(), {}
    groups = list(dict.fromkeys(hosts))
    client = {"argv": arguments(), "path": sys.path}
    ordinary = world.cluster.local and not isinstance(world.cluster, Forked)
    leash = os.getpid() if ordinary else 0
    for rank, host in enumerate(hosts):
        local, size = seen[host], per_host[host]
        variables = environment(rank, len(hosts), local, size, world.master)
        variables["GROUP_RANK"] = str(groups.index(host))
        seen[host] += 1
        roles[rank] = (variables, world.guard, world.addresses[rank], leash, client)
    return roles if everyone else {rank: roles[rank] for rank in only}


def reserve_port(world: World) -> int:
    """Return a port of rank 0's host that stays free for a rendezvous by hand."""
    address = world.addresses[0]
    if not world.cluster.local:
        return world.run_each(hold_port, {0: (address,)})[0]
    world.held = bound(address)
    return world.held.getsockname()[1]


def arguments() -> list[str]:
    """Return ``sys.argv`` of the script that is running; a notebook's is empty."""
    return [""] if get_ipython() is not None else sys.argv


def places(world: World) -> tuple[list[str], list[str]]:
    """Order the ranks host by host; return host and address of each."""
    if world.cluster.local:
        return ["localhost"] * len(world), [LOOPBACK] * len(world)
    found = world.run_all(place, world.cluster.peer())
    hosts = [place["host"] for place in found]
    order = sorted(range(len(world)), key=lambda i: (hosts.index(hosts[i]), i))
    world.reorder(order)
    return [hosts[i] for i in order], [found[i]["address"] for i in order]


def init_process_group(world: World) -> None:
    """Initialise the default process group on every rank."""
    world.run_all(call, *joining(world))


def joining(world: World) -> tuple[object, ...]:
    """Return the call by which a rank joins the default process group."""
    if world.cluster.local:
        store: object = str(Path(world.cluster.folder) / f"store-{uuid4().hex}")
    else:
        where = ("process_group:open_store", world.addresses[0], len(world))
        store = world.run_each(call, {0: where})[0]
    return "process_group:init", world.backend, world.timeout, store
