"""A cluster whose engines one of ipyparallel's own launchers starts."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from course_utils.engines.logs import last_words, number
from course_utils.engines.machine import find_mpiexec
from course_utils.engines.starting import (
    CONTROLLER,
    LOOPBACK,
    QUIET,
    StartError,
    check_controller,
    environment,
    in_thread,
    new_engine,
    start_engines,
)

if TYPE_CHECKING:
    pass

SAME_MACHINE = ("local", "mpi")  # launchers whose engines run beside the client


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
        leashed = [sys.executable, "-m", "course_utils.engines.leash", str(os.getpid())]
        cluster.config.LocalControllerLauncher.controller_cmd = [
            *leashed,
            "ipyparallel.controller",
        ]
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
