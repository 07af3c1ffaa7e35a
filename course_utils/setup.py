"""Make engines the ranks of a world: order, environment, process group."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from course_utils import engine
from course_utils.cluster import LOOPBACK, Forked

if TYPE_CHECKING:
    from course_utils.ranks import Ranks


def make_world(ranks: Ranks, backend: str | None) -> None:
    """Make the engines of a started cluster ranks.

    backend: of the default process group; None to leave that to the learner.
    """
    become_ranks(ranks)
    if backend is not None:
        ranks.backend = backend
        ranks.device = "cuda" if "nccl" in backend else "cpu"
        init_process_group(ranks)


def become_ranks(ranks: Ranks, only: list[int] | None = None) -> None:
    """Give engines their rank, environment and watch.

    Ranks are counted host by host, so that local ranks are consecutive.

    only: the ranks whose engine is new; all by default.
    """
    if only is None:
        hosts, ranks.addresses = places(ranks)
        ranks.master = None
    else:
        hosts = ranks.hosts
    if ranks.master is None or 0 in (only or []):
        address = ranks.addresses[0]
        port = ranks.run_each(engine.reserve_port, {0: (address,)})[0]
        ranks.master = (address, port)
    ranks.hosts = hosts
    per_host, seen, calls = Counter(hosts), Counter(), {}
    local = ranks.cluster.local
    leash = os.getpid() if local and not isinstance(ranks.cluster, Forked) else 0
    for rank, host in enumerate(hosts):
        variables = engine.environment(
            rank, len(hosts), seen[host], per_host[host], ranks.master
        )
        seen[host] += 1
        calls[rank] = (variables, ranks.guard, ranks.addresses[rank], leash)
    everyone = only is None or 0 in only  # a new rank 0 is a new MASTER_PORT
    chosen = list(calls) if everyone else only
    pids = ranks.run_each(engine.become_rank, {rank: calls[rank] for rank in chosen})
    ranks.pids.update(zip(chosen, pids, strict=True))


def places(ranks: Ranks) -> tuple[list[str], list[str]]:
    """Order the ranks host by host; return host and address of each."""
    if ranks.cluster.local:
        return ["localhost"] * len(ranks), [LOOPBACK] * len(ranks)
    peer = ranks.cluster.client._config["interface"].split("://")[1]
    found = ranks.run_all(engine.place, peer)
    hosts = [place["host"] for place in found]
    order = sorted(range(len(ranks)), key=lambda i: (hosts.index(hosts[i]), i))
    ranks.reorder(order)
    return [hosts[i] for i in order], [found[i]["address"] for i in order]


def init_process_group(ranks: Ranks) -> None:
    """Initialise the default process group on every rank."""
    if ranks.cluster.local:
        store: object = str(Path(ranks.cluster.folder) / f"store-{uuid4().hex}")
    else:
        where = ("process_group:open_store", ranks.addresses[0], len(ranks))
        store = ranks.run_each(engine.call, {0: where})[0]
    init = ("process_group:init", ranks.backend, ranks.timeout, store)
    ranks.run_all(engine.call, *init)
