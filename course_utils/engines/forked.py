"""A cluster whose engines are forked from one process: Linux, the default."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from course_utils.engines.fork import parent_of
from course_utils.engines.logs import last_words, number, tail
from course_utils.engines.starting import (
    BUSY,
    CONTROLLER,
    LOOPBACK,
    NEAR,
    QUIET,
    check_controller,
    environment,
    in_thread,
    new_engine,
    start_engines,
)


class Forked:
    """A cluster on this machine, forked from one process. Linux only.

    preload: modules that every engine needs, beside torch and ipyparallel's own.
    """

    local = True
    together = False  # engines that start together can do no more than others
    network: dict[str, int] | None = None  # of hosts inside this machine

    def __init__(self, world_size: int, preload: list[str]) -> None:
        self.world_size = world_size
        self.folder = self.make_folder()
        self.id = self.folder.name
        self.common = [f"--profile-dir={self.folder}", f"--cluster-id={self.id}"]
        self.parent = parent_of(
            self.folder,
            controller=[*self.listening(), *CONTROLLER, *self.common],
            preload=preload,
            environment=environment(),
            network=self.network,
        )
        self.cluster = self.client = None

    def make_folder(self) -> Path:
        """Make the private folder of the world (mode 0700)."""
        return Path(tempfile.mkdtemp(prefix="ranks-"))

    def listening(self) -> list[str]:
        """Return the controller's settings: where it listens, and its heartbeat."""
        return [f"--ip={LOOPBACK}", *NEAR]

    def start(self, limit: float) -> None:
        """Start controller and engines, and connect; `limit` in seconds."""
        from course_utils.engines import launchers

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

    def exit_code(self, pid: int, host: str = "") -> int:
        """Return how a process ended; a negative code is a signal's number."""
        return self.parent.exits().get(pid, 1)

    def last_words(self, rank: int, pid: int | None = None, host: str = "") -> str:
        """Return the end of what the engine of `rank` wrote before it ended."""
        return last_words(self.client.cluster.engine_set, rank, pid)

    def is_gone(self, host: str) -> bool:
        """Tell whether a host is out of reach: this one never is."""
        return False

    def begin(self) -> None:
        """Fork the engines; they register later."""
        in_thread(self.cluster, self.cluster.start_engines, self.world_size)

    def late(self) -> str:
        """Say why engines may not have come in time."""
        return BUSY

    def finish_off(self, pids: list[int]) -> bool:
        """End the ranks that their launcher ends in any case, now that one has died.

        pids: of all ranks. Returns whether there were any.
        """
        return False

    def replace(
        self, rank: int, limit: float, pid: int | None = None, host: str = ""
    ) -> int:
        """Fork a new engine in the place of one that has ended; return its id."""
        return new_engine(self, rank, limit)

    def stop(self) -> list[str]:
        """End every process of this cluster, at once; return no hosts.

        The fork parent lingers for a moment, for a launch that comes right after.
        """
        self.parent.clear()
        if self.client is not None:
            self.client.close(linger=0)
        shutil.rmtree(self.folder, ignore_errors=True)
        return []
