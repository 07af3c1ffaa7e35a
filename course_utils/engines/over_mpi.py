"""A cluster whose engines mpiexec starts, on this machine or on several."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from course_utils.engines.handed_over import (
    NOT_BACK,
    SAID,
    TASK,
    HandedOver,
    shared_folder,
)
from course_utils.engines.heartbeat import CONNECTION
from course_utils.engines.hosts import interface_of, own_address, read_hosts
from course_utils.engines.logs import (
    number_of_task,
    signal_named,
    tail,
    words_of_task,
)
from course_utils.engines.machine import find_mpiexec
from course_utils.engines.ports import LOOPBACK
from course_utils.engines.starting import (
    StartError,
    environment,
    in_thread,
    wait_for_new,
)
from course_utils.text import rank_list

if TYPE_CHECKING:
    from ipyparallel import Cluster
    from ipyparallel.cluster.launcher import MPIEngineSetLauncher
    from traitlets.config import Config

HYDRA = re.compile(
    r"PID (?P<pid>\d+) RUNNING AT \S+\n=\s+EXIT CODE: (?P<code>\d+)"
    r"(?:(?!BAD TERMINATION).)*?(?:\(signal (?P<signal>\d+)\)|\Z)",
    re.S,
)
GFORKER = re.compile(
    r"^\[\d+\](?P<rank>\d+):Return code = (?P<code>\d+)"
    r"(?:, signaled with (?P<signal>.+))?$",
    re.M,
)
FORKS = "mpiexec.gforker"  # MPICH's, for one machine
AT_ONCE = (  # variable of hydra: nobody is there to type a password, or to wait
    "HYDRA_LAUNCHER_EXTRA_ARGS",
    "-o BatchMode=yes -o ConnectTimeout=10",
)
KEEP = "-disable-auto-cleanup"  # of hydra: the end of a rank ends no other
HOW = "`pip install -r requirements-mpi.txt` brings one"
PASSED_ON = (*environment(), CONNECTION, "IPP_PROFILE_DIR", "IPP_CLUSTER_ID")


class OverMPI(HandedOver):
    """A cluster whose engines mpiexec starts.

    hosts: names, each with its number of ranks, as in "a:2"; this machine alone
        without them.
    """

    says = True
    together = True  # they are one MPI world

    def __init__(
        self,
        world_size: int,
        engines: str | type | None,
        profile: str | None,
        hosts: list[str] | None = None,
    ) -> None:
        self.room = read_hosts(hosts, world_size) if hosts else {}
        super().__init__(world_size, engines, profile, hosts)

    def make_folder(self) -> Path:
        """Make the private folder of the world where all hosts see it."""
        if self.local:
            return super().make_folder()
        return shared_folder()

    def configure(self, cluster: Cluster) -> None:
        """Choose mpiexec, its hosts and its network."""
        settings = cluster.config.MPILauncher
        if "mpi_cmd" not in settings:
            mpiexec = find_mpiexec()
            if mpiexec is None:
                raise StartError(
                    "engines='mpi' starts the ranks with mpiexec, which was not found: "
                    f"{HOW}"
                )
            settings.mpi_cmd = [mpiexec]
        if importlib.util.find_spec("mpi4py") is None:
            raise StartError(f"engines='mpi' needs mpi4py, which was not found: {HOW}")
        if self.local:
            at_home(settings, cluster.config.EngineLauncher.environment)
        self.kind = kind_of(settings.mpi_cmd)
        if self.room:
            variables = cluster.config.EngineLauncher.environment
            variables.setdefault(*AT_ONCE)
        if self.room or self.kind == "hydra":
            settings.mpi_args = self.arguments(self.room)
        if "engine_cmd" not in cluster.config.EngineLauncher:
            cluster.config.EngineLauncher.engine_cmd = [sys.executable, *TASK, "-"]

    def address(self, cluster: Cluster) -> str:
        """Return the address at which the engines reach this machine."""
        return own_address(self.room)

    def arguments(self, room: dict[str, int]) -> list[str]:
        """Return what mpiexec is told: hosts, network, and to keep who lives."""
        if not room:
            return [KEEP]
        named = ",".join(f"{host}:{count}" for host, count in room.items())
        device = interface_of(own_address(room))
        if self.kind == "hydra":
            network = ["-iface", device] if device else []
            return ["-hosts", named, *network, KEEP]
        if self.kind == "open mpi":
            passed = [word for name in PASSED_ON for word in ("-x", name)]
            return ["--host", named, *passed]
        raise StartError(
            "hosts: this mpiexec is neither MPICH's, Intel's nor Open MPI's; name the "
            "hosts in a profile, in c.MPILauncher.mpi_args"
        )

    def sets(self) -> list[MPIEngineSetLauncher]:
        """Return what started engines, each by one mpiexec, the latest first."""
        return list(self.cluster.engines.values())[::-1]

    def words(self) -> str:
        """Return what mpiexec wrote, the latest first."""
        return "\n".join(map(written, self.sets()))

    def how_ended(self, pid: int, host: str) -> int | None:
        """Return how a process ended, as far as mpiexec has said so."""
        number = number_of_task(self.folder, pid, "*" if self.local else host)
        return ending_of(pid, number, self.words())

    def last_words(self, rank: int, pid: int | None = None, host: str = "") -> str:
        """Return the end of what the engine of `rank` wrote before it ended."""
        host = "*" if self.local else host or "*"
        return words_of_task(self.folder, host, pid or "*")

    def finish_off(self, pids: list[int]) -> bool:
        """End the ranks that mpiexec ends in any case, now that one has died.

        It takes some seconds itself, and a repair would be in the middle of it.
        """
        engines = self.sets()[0]
        if not self.local or self.kind == "hydra" or engines.state == "after":
            return False
        import psutil  # here, so that doctor can say where it is missing

        below = psutil.Process(engines.pid).children(recursive=True)
        ranks = [process for process in below if process.pid in pids]
        for process in ranks:
            process.terminate()
        for process in psutil.wait_procs(ranks, timeout=SAID)[1]:
            process.kill()
        return bool(ranks)

    def replace(
        self, rank: int, limit: float, pid: int | None = None, host: str = ""
    ) -> int:
        """Start a new engine on the host of one that has ended; return its id.

        It is the only rank of an MPI world of its own.
        """
        return self.start_anew([rank], [host], limit)[0]

    def start_anew(self, ranks: list[int], hosts: list[str], limit: float) -> list[int]:
        """Start new engines, all in one MPI world; return their ids.

        hosts: of the ranks, for which they start.
        """
        known = set(self.client._engines.values())
        if self.room:
            settings = self.cluster.config.MPILauncher
            settings.mpi_args = self.arguments(dict(Counter(hosts)))
        in_thread(self.cluster, self.cluster.start_engines, len(hosts))
        started = self.sets()[0]

        def check() -> None:
            if started.state == "after":
                where = ", ".join(dict.fromkeys(hosts))
                words = tail(written(started), 10) or "(none)"
                who = rank_list(ranks)
                raise StartError(NOT_BACK.format("mpiexec", who, where, words))

        return wait_for_new(self.client, known, ranks, limit, check)


def written(engines: MPIEngineSetLauncher) -> str:
    """Return what one mpiexec wrote."""
    try:
        return Path(engines.output_file).read_text(errors="replace")
    except OSError:  # ipyparallel takes it in when mpiexec has ended
        return engines.get_output() if engines.state == "after" else ""


def at_home(settings: Config, variables: dict[str, str]) -> None:
    """Let MPI on one machine listen on the loopback interface alone.

    MPICH's mpiexec listens on all interfaces; the one that only forks does not.
    """
    forks = Path(settings.mpi_cmd[0]).with_name(FORKS)
    if forks.exists():
        settings.mpi_cmd = [str(forks), *settings.mpi_cmd[1:]]
    for name in ("UCX_NET_DEVICES", "FI_TCP_IFACE", "OMPI_MCA_btl_tcp_if_include"):
        variables.setdefault(name, interface_of(LOOPBACK))


def ending_of(pid: int, number: str, words: str) -> int | None:
    """Return how a process ended, by what mpiexec said; a negative code is a signal's.

    number: of its rank, as MPI counts.
    """
    for found in HYDRA.finditer(words):
        if int(found["pid"]) == pid:
            return -int(found["signal"]) if found["signal"] else int(found["code"])
    for found in GFORKER.finditer(words):
        if found["rank"] == number:
            how = found["signal"]
            return -signal_named(how) if how else int(found["code"])
    return None


def kind_of(mpiexec: list[str]) -> str:
    """Return whose mpiexec it is: "hydra" (MPICH, Intel), "forker", "open mpi"."""
    try:
        said = subprocess.run(
            [*mpiexec, "--version"], capture_output=True, text=True, timeout=20
        ).stdout.lower()
    except (OSError, subprocess.TimeoutExpired):
        return ""
    if Path(mpiexec[0]).name == FORKS:
        return "forker"
    known = {"hydra": "hydra", "intel": "hydra", "open": "open mpi"}
    return next((kind for word, kind in known.items() if word in said), "")
