"""A cluster whose engines one of ipyparallel's own launchers starts."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from course_utils.engines.hosts import public_address
from course_utils.engines.logs import exit_text, last_words, number, tail, words_of_task
from course_utils.engines.ports import LOOPBACK
from course_utils.engines.starting import (
    BUSY,
    CONTROLLER,
    FAR,
    NEAR,
    QUIET,
    StartError,
    environment,
    in_thread,
    new_engine,
    start_engines,
)

if TYPE_CHECKING:
    from ipyparallel import Cluster

ANYWHERE = ("*", "0.0.0.0")
SAME_MACHINE = ("local", "mpi")  # launchers whose engines run beside the client
NOT_COPIED = ("security", "log", "pid", "db", "*.sqlite", "history*")  # of a profile
SAID = 1.0  # seconds until a launcher has said how a process ended
AGAIN = 5.0  # seconds after which one is waited for again that said nothing
TASK = ("-m", "course_utils.engines.task")  # of Python: an engine as a task
NOT_BACK = (
    "{} could not start a new process for rank {} on {}; its last words:\n{}\n"
    "ranks.shrink() goes on without it"
)
TOGETHER = "the launcher {!r} starts engines only together: call launch() again"


class HandedOver:
    """A cluster whose engines one of ipyparallel's own launchers starts.

    engines: name of the launcher, as in "mpi" or "slurm", or its class; None
        for the launcher that the profile names.
    profile: ipyparallel profile that configures it; the world works on a copy, in
        a folder of its own, so that nothing of the world stays in the profile.
    hosts: names, each with its number of ranks, as in "a:2".
    """

    says = False  # whether the launcher says how a process ended
    together = False  # whether engines that start together can do more than others
    signals = False  # sends none: the engines' nannies do

    def __init__(
        self,
        world_size: int,
        engines: str | type | None,
        profile: str | None,
        hosts: list[str] | None = None,
    ) -> None:
        self.world_size, self.hosts = world_size, hosts
        self.engines, self.profile = engines, profile
        self.local = profile is None and hosts is None and engines in SAME_MACHINE
        self.says = self.says or self.local  # a child of ours
        self.folder = self.make_folder()
        self.tell = lambda _: None  # shows a line while the start takes long
        self._unsaid: dict[str, float] = {}  # when was waited in vain, by host
        self.cluster = self.client = None

    def make_folder(self) -> Path:
        """Make the private folder of the world (mode 0700)."""
        return Path(tempfile.mkdtemp(prefix="ranks-"))

    def start(self, limit: float) -> None:
        """Start controller and engines, and connect; `limit` in seconds."""
        self.cluster = cluster = self.make_cluster()
        try:
            self.prepare(cluster)
            start_engines(self, cluster, limit)
        except FileNotFoundError as error:
            cluster.engines.clear()  # none has started, and what stops them is missing
            named = "engines" if self.engines else "profile"
            raise StartError(
                f"{named}={getattr(self, named)!r} starts the ranks with "
                f"{error.filename}, which was not found: install it, or add its "
                "folder to PATH"
            ) from None

    def prepare(self, cluster: Cluster) -> None:
        """Set what every launcher needs, and what this kind does."""
        leashed = ["course_utils.engines.leash", str(os.getpid()), str(self.folder)]
        cluster.config.LocalControllerLauncher.controller_cmd = [
            *(sys.executable, "-m", *leashed),
            "ipyparallel.controller",
        ]
        given = cluster.config.EngineLauncher.get("environment", {})
        cluster.config.EngineLauncher.environment = {**environment(), **given}
        cluster.config.LocalEngineSetLauncher.delay = 0.0
        self.configure(cluster)
        self.place_controller(cluster)

    def make_cluster(self) -> Cluster:
        """Return ipyparallel's cluster, configured but not started."""
        from ipyparallel import Cluster

        chosen = {"engines": self.engines} if self.engines else {}
        if self.profile is not None:
            copy_profile(self.profile, self.folder)
        return Cluster(
            **chosen,
            profile_dir=str(self.folder),
            n=self.world_size,
            controller_args=[*CONTROLLER, *(NEAR if self.local else FAR)],
            cluster_id=self.folder.name,
            cluster_file="",
            delay=0,
            log_level=QUIET,
        )

    def place_controller(self, cluster: Cluster) -> None:
        """Choose the addresses at which the controller listens.

        Beyond loopback it listens to engines alone; its client is on this machine.
        """
        address = LOOPBACK if self.local else cluster.controller_ip
        if not address:
            address = self.address(cluster)
            if address not in ANYWHERE:
                for_engines = f"--IPController.engine_ip={address}"
                cluster.controller_args = [*cluster.controller_args, for_engines]
                cluster.controller_location = address
                return
        cluster.controller_ip = address
        if address in ANYWHERE and not cluster.controller_location:
            cluster.controller_location = public_address()

    def address(self, cluster: Cluster) -> str:
        """Return the address at which the engines reach this machine."""
        from ipyparallel.cluster.launcher import LocalEngineSetLauncher

        beside = issubclass(cluster.engine_launcher_class, LocalEngineSetLauncher)
        return LOOPBACK if beside else public_address()

    def peer(self) -> str:
        """Return the address of the controller, as the engines see it."""
        config = self.client._config
        address = config["interface"].split("://")[1]
        if address.startswith("127."):  # it listens everywhere: what others take
            return config["location"]
        return address

    def configure(self, cluster: Cluster) -> None:
        """Set what this kind of launcher needs."""

    def begin(self) -> None:
        """Start the engines; they register later."""
        in_thread(self.cluster, self.cluster.start_engines, self.world_size)

    def check_started(self) -> None:
        """Raise StartError if the controller, or what starts the engines, has ended."""
        if self.cluster.controller.state == "after":
            words = self.controller_words() or "(none)"
            raise StartError(f"the controller ended; its last words:\n{words}")
        engines = self.cluster.engine_set
        if engines is None or hasattr(engines, "launchers") or engines.state != "after":
            return
        code = exit_text((engines.stop_data or {}).get("exit_code"))
        raise StartError(
            f"what starts the ranks ended before they had come ({code}); its last "
            f"words:\n{self.start_words()}"
        )

    def words(self) -> str:
        """Return what a launcher that starts engines together wrote."""
        return self.cluster.engine_set.get_output()

    def start_words(self) -> str:
        """Return the end of what an engine and its launcher wrote."""
        said = [words_of_task(self.folder, "*", "*", 10), tail(self.words(), 10)]
        return "\n".join(filter(None, said)) or "(none)"

    def controller_words(self) -> str:
        """Return what the controller wrote."""
        return self.cluster.controller.get_output()

    def late(self) -> str:
        """Say why engines may not have come in time."""
        return BUSY

    def ended(self) -> dict[int, int]:
        """Return the exit codes of engines that have ended, by number."""
        ended = getattr(self.cluster.engine_set, "stop_data", None) or {}
        codes = ended.get("engines", {}).items()
        return {number(i): data["exit_code"] or 1 for i, data in codes}

    def exit_code(self, pid: int, host: str = "") -> int | None:
        """Return how a process ended; None if its launcher does not say so in time."""
        now = time.monotonic()
        in_vain = now < self._unsaid.get(host, 0) + AGAIN  # waited for a neighbour
        deadline = now + (SAID if self.says and not in_vain else 0)
        while (code := self.how_ended(pid, host)) is None:
            if time.monotonic() > deadline:
                self._unsaid[host] = now
                break
            time.sleep(0.05)
        return code

    def how_ended(self, pid: int, host: str) -> int | None:
        """Return how a process ended, as far as its launcher has said so."""
        ended = getattr(self.cluster.engine_set, "stop_data", None) or {}
        codes = {data["pid"]: data for data in ended.get("engines", {}).values()}
        return codes[pid]["exit_code"] if self.local and pid in codes else None

    def activity(self, pid: int, host: str) -> tuple[str, float] | None:
        """Return a process's status and CPU seconds; None if that cannot be known."""

    def is_gone(self, host: str) -> bool:
        """Tell whether a whole host is known to be out of reach."""
        return False

    def last_words(self, rank: int, pid: int | None = None, host: str = "") -> str:
        """Return the end of what the engine of `rank` wrote before it ended."""
        return last_words(self.cluster.engine_set, rank, pid)

    def finish_off(self, pids: list[int]) -> bool:
        """End the ranks that their launcher ends in any case, now that one has died.

        pids: of all ranks. Returns whether there were any.
        """
        return False

    def replace(
        self, rank: int, limit: float, pid: int | None = None, host: str = ""
    ) -> int:
        """Start a new engine in the place of one that has ended; return its id.

        pid, host: of the one that has ended.
        Raises StartError where the launcher starts engines only together.
        """
        if not hasattr(self.cluster.engine_set, "launchers"):
            raise StartError(TOGETHER.format(self.engines))
        return new_engine(self, rank, limit)

    def stop(self) -> list[str]:
        """End the engines and the controller; return the hosts out of reach."""
        if self.client is not None:
            self.client.close(linger=0)
        try:
            return self.end()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def end(self) -> list[str]:
        """End every process of this cluster; return the hosts out of reach."""
        if self.cluster is not None:
            in_thread(self.cluster, self.cluster.stop_cluster)
        return []


def last_of(log: Path) -> str:
    """Return the end of what was written into a log."""
    return tail(log.read_text(errors="replace"), 10) or "(none)"


def shared_folder() -> Path:
    """Make a private folder (mode 0700) here, where other hosts should see it."""
    here = Path.cwd()
    try:
        return Path(tempfile.mkdtemp(prefix=".ranks-", dir=here))
    except OSError as error:
        raise StartError(
            f"{here} cannot be written ({error.strerror}): start the notebook in a "
            "folder of yours that all hosts see"
        ) from None


def copy_profile(name: str, folder: Path) -> None:
    """Copy the configuration of a profile into the folder of a world."""
    from IPython.paths import get_ipython_dir

    places = [Path(get_ipython_dir()), Path.cwd()]  # as IPython looks for it
    found = [place / f"profile_{name}" for place in places]
    profile = next(filter(Path.is_dir, found), None)
    if profile is None:
        raise StartError(
            f"profile: there is no profile {name!r} in {places[0]}; "
            f"`ipython profile create {name} --parallel` makes one"
        )
    skip = shutil.ignore_patterns(*NOT_COPIED)
    shutil.copytree(profile, folder, ignore=skip, dirs_exist_ok=True)
