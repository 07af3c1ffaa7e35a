"""Make engines the ranks of a world: order, environment, process group."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from uuid import uuid4

from IPython import get_ipython

from course_utils import engine
from course_utils.cluster import LOOPBACK, Forked, HandedOver, StartError
from course_utils.px import RankError, RankMagics
from course_utils.ranks import Ranks


def ranks(
    cluster: Forked | HandedOver,
    backend: str,
    init: bool,
    guard: bool,
    timeout: float,
) -> Ranks:
    """Return the ranks of a started cluster, ready to use."""
    world = Ranks(cluster, sorted(cluster.client.ids))
    try:
        master = become_ranks(world, guard)
        if init:
            world.backend = init_process_group(world, backend, timeout, master)
    except RankError as error:
        raise StartError(f"the ranks did not start:\n{error}") from None
    if backend == "nccl":
        world.device = "cuda"
    shell = get_ipython()
    if shell is not None:
        shell.register_magics(RankMagics(shell, world))
    return world


def become_ranks(world: Ranks, guard: bool) -> str:
    """Give every engine its rank and environment; return rank 0's address.

    Ranks are counted host by host, so that local ranks are consecutive.
    """
    local = world._cluster.local
    if local:
        address, pairs = LOOPBACK, [(0, LOOPBACK)] * len(world)
    else:
        peer = world._cluster.client._config["interface"].split("://")[1]
        places = world.run(engine.place, peer)
        hosts = [place["host"] for place in places]
        order = sorted(range(len(world)), key=lambda i: (hosts.index(hosts[i]), i))
        world.reorder(order)
        pairs = [(hosts[i], places[i]["address"]) for i in order]
        address = pairs[0][1]
    master = (address, world.run(engine.reserve_port, address, targets=0)[0])
    per_host, seen = Counter(host for host, _ in pairs), Counter()
    calls = []
    for rank, (host, own_address) in enumerate(pairs):
        variables = engine.environment(
            rank, len(pairs), seen[host], per_host[host], master
        )
        seen[host] += 1
        leash = os.getpid() if local and not isinstance(world._cluster, Forked) else 0
        calls.append((variables, guard, own_address, leash))
    world.run_each(engine.become_rank, calls)
    return address


def init_process_group(
    world: Ranks, backend: str, timeout: float, address: str
) -> str:
    """Initialise the default process group on every rank; return its backend."""
    if world._cluster.local:
        store: object = str(Path(world._cluster.folder) / f"store-{uuid4().hex}")
    else:
        where = ("process_group:open_store", address, len(world))
        store = world.run(engine.call, *where, targets=0)[0]
    init = ("process_group:init", backend, timeout, store)
    return world.run(engine.call, *init)[0]
