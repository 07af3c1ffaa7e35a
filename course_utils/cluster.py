"""Start and stop the ipyparallel cluster whose engines become the ranks.

Two ways, one interface: `Forked` forks the engines from one process (Linux, the
default); `HandedOver` lets one of ipyparallel's own launchers start them (mpi,
ssh, slurm, or plain local processes).
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from course_utils.fork import ForkParent
from course_utils.machine import find_mpiexec

if TYPE_CHECKING:
    from ipyparallel import Client, Cluster
    from ipyparallel.cluster.launcher import EngineLauncher

CONTROLLER = [
    "--IPController.enable_curve=True",  # no other user can read or send
    "--IPController.use_threads=True",  # one process instead of nine
    "--IPController.broadcast_scheduler_depth=0",
    "--IPController.db_class=NoDB",
    "--HeartMonitor.period=100",  # ms; an engine registers at its first beat
    "--HeartMonitor.max_heartmonitor_misses=600",
    "--log-level=ERROR",
]
ENGINE = ["--log-level=ERROR"]
SAME_MACHINE = ("local", "mpi")  # launchers whose engines run beside the client
LOOPBACK = "127.0.0.1"
LOG_LIMIT = 1.0  # seconds until the log of an engine that ended must be there
TRY = 5  # seconds for one attempt to connect to the controller
QUIET = 40  # log level of the client's side: errors only


class StartError(RuntimeError):
    """The world could not be started; nothing of it is left running."""


class Forked:
    """A cluster on this machine, forked from one process. Linux only."""

    local = True

    def __init__(self, world_size: int) -> None:
        self.world_size = world_size
        self.folder = Path(tempfile.mkdtemp(prefix="ranks-"))  # mode 0700
        self.id = self.folder.name
        common = [f"--profile-dir={self.folder}", f"--cluster-id={self.id}"]
        self.parent = ForkParent(
            self.folder,
            controller=[f"--ip={LOOPBACK}", *CONTROLLER, *common],
            environment=environment(),
        )
        self.cluster = self.client = None

    def start(self, limit: float) -> None:
        """Start controller and engines, and connect; `limit` in seconds."""
        from course_utils import launchers

        self.cluster = cluster = launchers.ForkedCluster(
            controller=launchers.ForkedControllerLauncher,
            engines=launchers.ForkedEngineSetLauncher,
            fork_parent=self.parent,
            profile_dir=str(self.folder),
            cluster_id=self.id,
            cluster_file="",
            load_profile=False,
            shutdown_atexit=False,  # the fork parent sees to that
            delay=0,
            log_level=QUIET,
        )
        cluster.config.EngineLauncher.engine_args = ENGINE
        start_engines(self, cluster, limit)

    def check_started(self) -> None:
        """Raise an error if the fork parent or the controller has ended."""
        self.parent.check()
        check_controller(self)

    def controller_words(self) -> str:
        """Return the last lines that the controller wrote."""
        log = self.folder / "log" / "ipcontroller.log"
        return tail(log.read_text(errors="replace"), 10) if log.exists() else ""

    def ended(self) -> dict[int, int]:
        """Return the exit codes of engines that have ended, by number."""
        engines = self.client.cluster.engine_set.stop_data.get("engines", {})
        return {number(i): self.exit_code(d["pid"]) for i, d in engines.items()}

    def exit_code(self, pid: int) -> int:
        """Return how a process ended; a negative code is a signal's number."""
        return self.parent.exits().get(pid, 1)

    def last_words(self, rank: int, pid: int | None = None) -> str:
        """Return the end of what the engine of `rank` wrote before it ended."""
        return last_words(self.client.cluster.engine_set, rank, pid)

    def replace(self, rank: int, limit: float) -> int:
        """Fork a new engine in the place of one that has ended; return its id."""
        return new_engine(self, rank, limit)

    def stop(self) -> None:
        """End every process of this cluster, at once."""
        self.parent.end()
        if self.client is not None:
            self.client.close(linger=0)
        shutil.rmtree(self.folder, ignore_errors=True)


class HandedOver:
    """A cluster whose engines one of ipyparallel's own launchers starts.

    engines: name of the launcher, as in "mpi" or "slurm", or its class; None
        for the launcher that the profile names.
    profile: ipyparallel profile that configures it.
    """

    def __init__(
        self, world_size: int, engines: str | type | None, profile: str | None
    ) -> None:
        self.world_size = world_size
        self.engines, self.profile = engines, profile
        self.local = profile is None and engines in SAME_MACHINE
        self.folder = Path(tempfile.mkdtemp(prefix="ranks-"))  # mode 0700
        self.cluster = self.client = None

    def start(self, limit: float) -> None:
        """Start controller and engines, and connect; `limit` in seconds."""
        from ipyparallel import Cluster

        chosen = {"engines": self.engines} if self.engines else {}
        if self.profile is None:
            chosen["profile_dir"] = str(self.folder)
        else:
            chosen["profile"] = self.profile
        if self.local:
            chosen["controller_ip"] = LOOPBACK
        self.cluster = cluster = Cluster(
            **chosen,
            n=self.world_size,
            controller_args=CONTROLLER,
            cluster_id=self.folder.name,
            cluster_file="",
            delay=0,
            log_level=QUIET,
        )
        leashed = [sys.executable, "-m", "course_utils.leash", str(os.getpid())]
        cluster.config.LocalControllerLauncher.controller_cmd = [
            *leashed,
            "ipyparallel.controller",
        ]
        cluster.config.EngineLauncher.engine_args = ENGINE
        cluster.config.EngineLauncher.environment = environment()
        cluster.config.LocalEngineSetLauncher.delay = 0.0
        if self.profile is None and (mpiexec := find_mpiexec()):
            cluster.config.MPILauncher.mpi_cmd = [mpiexec]
        try:
            start_engines(self, cluster, limit)
        except FileNotFoundError as error:
            cluster.engines.clear()  # none has started, and what stops them is missing
            named = "engines" if self.engines else "profile"
            raise StartError(
                f"{named}={getattr(self, named)!r} starts the ranks with "
                f"{error.filename}, which was not found: install it, or add its "
                "folder to PATH"
            ) from None

    def check_started(self) -> None:
        """Raise StartError if the controller has ended."""
        check_controller(self)

    def controller_words(self) -> str:
        """Return what the controller wrote."""
        return self.cluster.controller.get_output()

    def ended(self) -> dict[int, int]:
        """Return the exit codes of engines that have ended, by number."""
        engines = self.cluster.engine_set
        ended = engines.stop_data or {}
        if "engines" in ended:
            codes = ended["engines"].items()
            return {number(i): d["exit_code"] or 1 for i, d in codes}
        return {0: ended.get("exit_code") or 1} if engines.state == "after" else {}

    def exit_code(self, pid: int) -> None:
        """Return None: how it ended is known to the launcher's machine only."""

    def last_words(self, rank: int, pid: int | None = None) -> str:
        """Return the end of what the engine of `rank` wrote before it ended."""
        return last_words(self.cluster.engine_set, rank, pid)

    def replace(self, rank: int, limit: float) -> int:
        """Start a new engine in the place of one that has ended; return its id.

        Raises StartError where the launcher starts engines only together.
        """
        if not hasattr(self.cluster.engine_set, "launchers"):
            raise StartError(
                f"the launcher {self.engines!r} starts engines only together: "
                "call launch() again"
            )
        return new_engine(self, rank, limit)

    def stop(self) -> None:
        """End the engines and the controller as their launcher does."""
        if self.client is not None:
            self.client.close(linger=0)
        if self.cluster is not None:
            in_thread(self.cluster, self.cluster.stop_cluster)
        shutil.rmtree(self.folder, ignore_errors=True)


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


def start_engines(world: Forked | HandedOver, cluster: Cluster, limit: float) -> None:
    """Start the controller, connect to it, and start the engines.

    In this order, since a client is not told of an engine that registers at the
    moment at which the client connects.
    """
    in_thread(cluster, cluster.start_controller)
    world.client = connect(world, cluster, limit)
    in_thread(cluster, cluster.start_engines, world.world_size)
    wait_for_engines(world, limit)


def connect(world: Forked | HandedOver, cluster: Cluster, limit: float) -> Client:
    """Return a client of the controller, once it answers."""
    deadline = time.monotonic() + limit
    while True:
        try:
            return in_thread(cluster, partial(cluster.connect_client, timeout=TRY))
        except (TimeoutError, RuntimeError) as error:
            world.check_started()
            if isinstance(error, RuntimeError) or time.monotonic() > deadline:
                words = world.controller_words() or "(none)"
                raise StartError(
                    f"the controller did not start: {error}; its last words:\n{words}"
                ) from None


def check_controller(world: Forked | HandedOver) -> None:
    """Raise StartError, with its last words, if the controller has ended."""
    if world.cluster.controller.state == "after":
        words = world.controller_words() or "(none)"
        raise StartError(f"the controller ended; its last words:\n{words}")


def wait_for_engines(cluster: Forked | HandedOver, limit: float) -> None:
    """Wait until every engine has registered; tell why if one does not."""
    deadline = time.monotonic() + limit
    while len(cluster.client.ids) < cluster.world_size:
        ended = cluster.ended()
        if ended:
            rank, code = min(ended.items())
            raise StartError(
                f"rank {rank} ended while it started ({exit_text(code)}); its last "
                f"words:\n{cluster.last_words(rank) or '(none)'}"
            )
        if time.monotonic() > deadline:
            there = len(cluster.client.ids)
            raise StartError(
                f"{there} of {cluster.world_size} ranks started within "
                f"{limit:.0f} s; the machine may be short of memory or very busy"
            )
        time.sleep(0.01)


def new_engine(cluster: Forked | HandedOver, rank: int, limit: float) -> int:
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
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        for id_, uuid in list(client._engines.items()):
            if isinstance(id_, int) and uuid not in known:
                return id_
        time.sleep(0.01)
    raise StartError(f"the new process for rank {rank} did not start in {limit:.0f} s")


def number(identifier: str) -> int:
    """Return the rank in a launcher's identifier, "2" or "2.…"."""
    return int(identifier.partition(".")[0])


def exit_text(code: int | None) -> str:
    """Put an exit code into words; a negative code is a signal's number."""
    if code is None:
        return "its process has ended"
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {-code}, {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"


def last_words(
    engines: EngineLauncher, rank: int, pid: int | None, lines: int = 200
) -> str:
    """Return the end of what an engine wrote before it ended.

    pid: of the engine; without it, the last one that was started for `rank`.
    """
    if not hasattr(engines, "launchers"):  # one log for all engines together
        return tail(engines.get_output(), lines)
    pids = {i: launcher.pid for i, launcher in list(engines.launchers.items())}
    ended = (engines.stop_data or {}).get("engines", {})
    pids.update({i: data.get("pid") for i, data in ended.items()})
    found = [i for i in pids if pid is not None and pids[i] == pid]
    found = found or [i for i in pids if number(i) == rank]
    return tail(log_text(engines, found[-1]) if found else "", lines)


def log_text(engines: EngineLauncher, identifier: str) -> str:
    """Read the log of one engine.

    ipyparallel moves it to `outputs` a moment after the engine has ended. Its
    ``get_output`` remembers what it once read, so that of a living engine must not
    be called.
    """
    launcher = engines.launchers.get(identifier)
    if launcher is not None:
        try:
            return Path(launcher.output_file).read_text(errors="replace")
        except OSError:  # moved meanwhile, or on another machine
            pass
    deadline = time.monotonic() + LOG_LIMIT
    while identifier in engines.launchers and time.monotonic() < deadline:
        time.sleep(0.01)
    return engines.outputs.get(identifier) or ""


def tail(text: str, lines: int) -> str:
    """Return the last lines of a text."""
    return "\n".join(text.strip().splitlines()[-lines:])
