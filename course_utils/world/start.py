"""Start a world: processes that are the ranks of one process group."""

from __future__ import annotations

import atexit
import importlib
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from course_utils.engines import (
    Forked,
    StartError,
    check_hosts,
    choose_cluster,
    is_inside,
    machine,
    read_link,
    share_out,
)
from course_utils.world.alone import check_alone
from course_utils.world.stop import stoppable

if TYPE_CHECKING:
    from course_utils.engines import HandedOver
    from course_utils.world.ranks import Ranks

ON_RANKS = [  # modules of the course that every rank uses
    "course_utils.guard",
    "course_utils.process_group",
    "course_utils.world.rank",
]
BACKENDS = ("gloo", "nccl", "mpi", "ucc", "xccl")
NOT_HERE = (
    'hosts={}: hosts inside a machine need Linux; hosts=["a:2", "b:2"] takes real '
    "ones, and without hosts all ranks run on this one"
)
ENGINES, PROFILE = "COURSE_UTILS_ENGINES", "COURSE_UTILS_PROFILE"  # variables
BEFORE = 0.8  # share of the time-out after which ranks have waited long enough

_running: list[Ranks] = []  # the one world of this kernel, if there is one


def launch(
    world_size: int = 4,
    *,
    backend: str | None = None,
    init: bool = True,
    guard: bool = True,
    timeout: float = 300,
    patience: float = 5,
    engines: str | type | None = None,
    profile: str | None = None,
    hosts: int | Sequence[str] | None = None,
    link: str | None = None,
    start_timeout: float = 120,
    hints: bool = False,
) -> Ranks:
    """Start `world_size` processes, the ranks of one process group.

    A world that this kernel launched before is stopped first. Every rank has
    torchrun's environment variables, so the code of a cell runs unchanged in a
    script under torchrun.

    backend: "gloo", "nccl", …; by default nccl where every rank has a GPU of its
        own, else gloo. "mpi" has mpiexec start the ranks, and works on any torch, see
        `course_utils.mpi_backend`.
    init: initialise the default process group; False leaves that to you.
    guard: compare operation, root, shape and dtype of every collective across the
        ranks before it runs, see `course_utils.guard`. It costs a small message a
        call: turn it off to measure.
    timeout: seconds after which a collective fails even though a rank that it
        waits for still computes.
    patience: seconds after which a cell whose ranks wait in vain ends with a
        report and a repaired world.
    engines: an ipyparallel launcher ("local", "mpi", "ssh", "slurm", …) or its
        class. By default the ranks are forked from one process (Linux) or are
        ordinary local processes.
    profile: ipyparallel profile that configures the launcher. Where a call names no
        engines, profile or hosts, the environment variables COURSE_UTILS_ENGINES and
        COURSE_UTILS_PROFILE may name the first two.
    hosts: names of hosts, each with its number of ranks, as in ["a:2", "b:2"]; reached
        over ssh, or by MPI with engines="mpi". A number of hosts, as in hosts=2: they
        are made inside this machine, with networks of their own (Linux).
    link: rate of the cable of each host inside this machine, as in "400mbit".
    start_timeout: seconds until every rank must have started; a queue of a cluster
        may need more.
    hints: before a `%%px` cell runs, print what goes wrong in it between ranks, as far
        as that can be read from its source; see `course_utils.read`. `ranks.hints`
        changes it.

    Raises ValueError or TypeError for arguments that cannot work, and ImportError for
    a second course_utils on the path, before anything starts, and StartError, leaving
    nothing behind, if the start itself fails.
    """
    check_alone()
    check_world_size(world_size)
    check_launcher(engines)
    if engines is None and profile is None and hosts is None:
        engines, profile = named_outside(backend)
    engines = launcher_for(backend, engines, profile)
    check_hosts(world_size, engines, profile, hosts)
    inside = is_inside(hosts)
    rate = check_link(link, inside)
    own = engines is None and profile is None and hosts is None
    forked = (own or inside) and machine.can_fork()
    if inside and not forked:
        raise StartError(NOT_HERE.format(hosts))
    if forked or engines == "local":
        check_memory(world_size, forked)
    local = (forked or engines == "local") and not inside
    backend = choose_backend(backend, world_size, local, inside)
    check_seconds("timeout", timeout)
    check_seconds("patience", patience)
    check_seconds("start_timeout", start_timeout)
    with stoppable("launch", "nothing of the new world is left running"):
        stop_running()
        if inside:
            from course_utils.engines import InNamespaces  # others start sooner

            cluster = InNamespaces(share_out(hosts, world_size), rate, ON_RANKS)
        elif forked:
            cluster = Forked(world_size, ON_RANKS)  # torch is imported there at once
        else:
            engines = "local" if own else engines
            cluster = choose_cluster(world_size, engines, profile, hosts, ON_RANKS)
        patience = min(patience, BEFORE * timeout)  # a time-out names nobody
        settings = Settings(
            backend if init else None, guard, timeout, patience, start_timeout, hints
        )
        return start(cluster, settings)


class Settings(NamedTuple):
    """What `launch` was told about the world; see there."""

    backend: str | None
    guard: bool
    timeout: float
    patience: float
    start_timeout: float
    hints: bool


def start(cluster: Forked | HandedOver, settings: Settings) -> Ranks:
    """Start a cluster, and make its engines ranks; see `launch`."""
    from course_utils.text import RankError
    from course_utils.world import px, setup
    from course_utils.world.ranks import Ranks
    from course_utils.world.waiting import waiting

    try:
        with waiting(cluster):
            cluster.start(settings.start_timeout)
        ranks = Ranks(cluster, settings.guard, settings.timeout, settings.patience)
        ranks.hints = settings.hints
        setup.make_world(ranks, settings.backend)
    except RankError as error:
        cluster.stop()
        raise StartError(f"the ranks did not start:\n{error}") from None
    except BaseException:
        cluster.stop()
        raise
    _running.append(ranks)
    px.register(ranks)
    return ranks


def stop_running() -> None:
    """Stop the world that this kernel launched, if there is one."""
    while _running:
        _running.pop().stop()


atexit.register(stop_running)


def check_world_size(world_size: object) -> None:
    """Raise TypeError or ValueError unless `world_size` is a whole number above 0."""
    if isinstance(world_size, bool) or not isinstance(world_size, int):
        raise TypeError(
            f"world_size: expected a whole number of ranks, as in launch(4), "
            f"got {world_size!r}"
        )
    if world_size < 1:
        raise ValueError(f"world_size: expected at least 1 rank, got {world_size}")


def check_seconds(name: str, seconds: object) -> None:
    """Raise ValueError unless `seconds` is a number above 0."""
    number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not number or not 0 < seconds < float("inf"):
        raise ValueError(f"{name}: expected seconds above 0, got {seconds!r}")


def check_memory(world_size: int, forked: bool) -> None:
    """Raise ValueError if that many ranks cannot fit into this machine's memory."""
    most = machine.most_ranks(forked)
    if world_size > most:
        free = machine.available_memory() / 2**30
        raise ValueError(
            f"world_size: {world_size} ranks do not fit into the {free:.1f} GiB of "
            f"memory that are available; at most {most} do. "
            "Launch fewer, or close what else is running"
        )


def check_link(link: str | None, inside: bool) -> int:
    """Return bytes a second; raise ValueError for what cannot be."""
    if link is not None and not inside:
        raise ValueError(
            "link: only the cables of hosts inside this machine have a rate that can "
            f"be chosen, as in launch(4, hosts=2, link={link!r})"
        )
    return read_link(link)


def named_outside(backend: str | None) -> tuple[str | None, str | None]:
    """Return launcher and profile that the environment names, for unchanged notebooks.

    MPI's backend has a launcher of its own.
    """
    if str(backend).lower() == "mpi":
        return None, None
    engines = os.environ.get(ENGINES) or None
    check_launcher(engines, ENGINES)
    return engines, os.environ.get(PROFILE) or None


def check_launcher(engines: str | type | None, name: str = "engines") -> None:
    """Raise ValueError if ipyparallel has no launcher of that name."""
    if not isinstance(engines, str):
        return
    from importlib.metadata import entry_points  # 20 ms that few launches need

    group = entry_points(group="ipyparallel.engine_launchers")
    known = sorted(group.names)
    if engines.lower() not in known and not is_class(engines):
        raise ValueError(
            f"{name}: there is no launcher {engines!r}; known are {', '.join(known)}"
        )


def launcher_for(
    backend: str | None, engines: str | type | None, profile: str | None
) -> str | type | None:
    """Return the launcher: that of MPI for ranks that are to have its backend.

    Raises ValueError if another one is named.
    """
    if str(backend).lower() != "mpi" or profile is not None:
        return engines
    if isinstance(engines, str) and engines.lower() != "mpi":
        raise ValueError(
            f"backend: mpi needs ranks that mpiexec starts: engines='mpi', not "
            f"{engines!r}"
        )
    return engines or "mpi"


def is_class(path: str) -> bool:
    """Tell whether a dotted path leads to a class that can be imported."""
    module, _, name = path.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name, None)
    except (ImportError, ValueError):
        return False
    return isinstance(found, type)


def choose_backend(
    backend: str | None, world_size: int, local: bool, inside: bool = False
) -> str:
    """Return the backend of the default process group, checked.

    local: all ranks run on this machine, whose GPUs can be counted beforehand.
    inside: they do so on hosts that share these GPUs.
    """
    if backend is None:
        fits = local and machine.gpus() >= world_size
        return "nccl" if fits else "gloo"
    names = [part.rpartition(":")[2] for part in str(backend).lower().split(",")]
    if not isinstance(backend, str) or any(name not in BACKENDS for name in names):
        raise ValueError(
            f"backend: expected one of {', '.join(BACKENDS)}, got {backend!r}"
        )
    if inside and "nccl" in names:
        raise ValueError(
            "backend: hosts inside this machine share its GPUs, and nccl needs one for "
            "each rank; take gloo"
        )
    if local and "nccl" in names and machine.gpus() < world_size:
        raise ValueError(
            f"backend: nccl needs a GPU for each of the {world_size} ranks, and torch "
            f"can use {machine.gpus()} here; launch fewer ranks or take gloo"
        )
    return backend.lower()
