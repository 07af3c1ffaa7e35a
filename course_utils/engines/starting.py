"""Start the controller and the engines of a cluster, and connect to them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol

from course_utils.engines.logs import exit_text
from course_utils.text import these_ranks

if TYPE_CHECKING:
    from ipyparallel import Client, Cluster

CONTROLLER = [
    "--IPController.enable_curve=True",  # no other user can read or send
    "--IPController.use_threads=True",  # one process instead of nine
    "--IPController.broadcast_scheduler_depth=0",
    "--IPController.db_class=NoDB",
    "--log-level=ERROR",
]
NEAR = [  # on one machine; an engine registers at its first beat
    "--HeartMonitor.period=100",  # ms
    "--HeartMonitor.max_heartmonitor_misses=600",
]
FAR = [  # on several: answers may take long, and a host that has gone is noticed in 8 s
    "--HeartMonitor.period=250",
    "--HeartMonitor.max_heartmonitor_misses=32",
]
ENGINE = ["--log-level=ERROR"]
TRY = 5  # seconds for one attempt to connect to the controller
LOOK = 0.002  # seconds between two looks at what must come soon
CHECKED = 10  # looks between two whether what is to come still can
ASKED = 100  # looks between two questions which engines there are
BUSY = "the machine may be short of memory or very busy"
QUIET = 40  # log level of the client's side: errors only


class StartError(RuntimeError):
    """The world could not be started; nothing of it is left running."""


class Startable(Protocol):
    """A cluster that is being started, however its processes come about.

    client: of its controller, once that answers.
    """

    world_size: int
    client: Client

    def check_started(self) -> None:
        """Raise an error if what starts the engines has ended."""

    def controller_words(self) -> str:
        """Return the last lines that the controller wrote."""

    def ended(self) -> dict[int, int]:
        """Return the exit codes of engines that have ended, by number."""

    def last_words(self, rank: int) -> str:
        """Return the end of what the engine of `rank` wrote before it ended."""

    def begin(self) -> None:
        """Start the engines; they register later."""

    def late(self) -> str:
        """Say why engines may not have come in time."""


def environment() -> dict[str, str]:
    """Return the variables that all processes of a world get."""
    defaults = {
        "OMP_NUM_THREADS": "1",  # as torchrun does: ranks share the cores
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "TORCH_CPP_LOG_LEVEL": "FATAL",  # lines with clock times; errors say the same
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    }
    return {name: os.environ.get(name, value) for name, value in defaults.items()}


def in_thread(cluster: Cluster, method: Callable[..., Any], *args: object) -> Any:
    """Run a method of a cluster in the cluster's own thread, whose loop goes on.

    ipyparallel does so in a kernel only. In a script its ``…_sync`` methods leave
    no loop running, and then nobody is told that an engine has ended.
    """
    return cluster._in_thread(method, *args)


def start_engines(world: Startable, cluster: Cluster, limit: float) -> None:
    """Start the controller, connect to it, and start the engines.

    In this order, since a client is not told of an engine that registers at the
    moment at which the client connects.
    """
    cluster.config.EngineLauncher.engine_args = ENGINE
    in_thread(cluster, cluster.start_controller)
    attempt = partial(in_thread, cluster, connected, cluster)
    world.client = connect(world, attempt, limit)
    world.begin()
    wait_for_engines(world, limit)


def connection_of(cluster: Cluster) -> str:
    """Return, as JSON, what an engine must know about a controller that runs."""
    return json.dumps(in_thread(cluster, connection_info, cluster)["engine"])


async def connection_info(cluster: Cluster) -> dict[str, dict]:
    """Return what the controller told clients and engines."""
    from inspect import isawaitable

    found = cluster.controller.get_connection_info()
    return await found if isawaitable(found) else found


def connect(
    world: Startable, attempt: Callable[[float], Client], limit: float
) -> Client:
    """Return a client of the controller, once it answers.

    attempt: returns one, or raises TimeoutError after so many seconds.
    """
    deadline = time.monotonic() + limit
    while True:
        try:
            return attempt(TRY)
        except (TimeoutError, RuntimeError) as error:
            world.check_started()
            if isinstance(error, RuntimeError) or time.monotonic() > deadline:
                words = world.controller_words() or "(none)"
                raise StartError(
                    f"the controller did not start: {error}; its last words:\n{words}"
                ) from None


async def connected(cluster: Cluster, limit: float) -> Client:
    """Return a client, as `Cluster.connect_client` does, with all that ranks show."""
    from course_utils.engines.client import RankClient

    return RankClient(
        (await connection_info(cluster))["client"],
        cluster=cluster,
        profile_dir=cluster.profile_dir,
        cluster_id=cluster.cluster_id,
        timeout=limit,
    )


def wait_for_engines(cluster: Startable, limit: float) -> None:
    """Wait until every engine has registered; tell why if one does not."""
    deadline = time.monotonic() + limit
    for looks in count(1):
        if len(cluster.client.ids) >= cluster.world_size:
            return
        if looks % CHECKED == 0:
            check_engines(cluster)
        if looks % ASKED == 0:
            cluster.client.ask_for_engines()
        if time.monotonic() > deadline:
            there = len(cluster.client.ids)
            raise StartError(
                f"{there} of {cluster.world_size} ranks started within "
                f"{limit:.0f} s; {cluster.late()}"
            )
        time.sleep(LOOK)


def check_engines(cluster: Startable) -> None:
    """Raise StartError if engines cannot come any more."""
    cluster.check_started()
    if ended := cluster.ended():
        rank, code = min(ended.items())
        words = cluster.controller_words()
        raise StartError(
            f"rank {rank} ended while it started ({exit_text(code)}); its last "
            f"words:\n{cluster.last_words(rank) or '(none)'}"
            + (f"\nThe controller's last words:\n{words}" if words else "")
        )


def new_engine(cluster: Startable, rank: int, limit: float) -> int:
    """Start one engine of an engine set anew, and wait for it; return its id."""
    client = cluster.client
    known = set(client._engines.values())
    engines = client.cluster.engine_set
    identifier = f"{rank}.{len(known)}.{time.monotonic_ns()}"
    engine = engines.launchers[identifier] = engines.launcher_class(
        work_dir=engines.work_dir,
        parent=engines,
        log=engines.log,
        profile_dir=engines.profile_dir,
        cluster_id=engines.cluster_id,
        environment=engines.environment,
        identifier=identifier,
        output_file=f"{engines.profile_dir}/log/ipengine-anew-{identifier}.log",
    )
    engine.engine_cmd = list(engines.engine_cmd)
    engine.engine_args = list(engines.engine_args)
    engine.on_stop(engines._notice_engine_stopped)
    engine.start()
    return wait_for_new(client, known, [rank], limit)[0]


def wait_for_new(
    client: Client,
    known: set[str],
    ranks: list[int],
    limit: float,
    check: Callable[[], None] = lambda: None,
) -> list[int]:
    """Wait for engines that are not among those `known`; return their ids.

    ranks: for which they start. check: raises an error once they cannot come.
    """
    deadline, looks = time.monotonic() + limit, count(1)
    while time.monotonic() < deadline:
        new = [i for i, uuid in list(client._engines.items()) if uuid not in known]
        found = sorted(i for i in new if isinstance(i, int))
        if len(found) >= len(ranks):
            return found
        if next(looks) % CHECKED == 0:
            check()
        time.sleep(LOOK)
    many = len(ranks) > 1
    raise StartError(
        f"the new process{'es' if many else ''} for {these_ranks(ranks)} did not start "
        f"in {limit:.0f} s"
    )
