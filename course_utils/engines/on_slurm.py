"""A cluster whose engines are the tasks of one job of Slurm's."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from course_utils.engines import slurm
from course_utils.engines.handed_over import (
    NOT_BACK,
    TASK,
    HandedOver,
    last_of,
    shared_folder,
)
from course_utils.engines.heartbeat import CONNECTION
from course_utils.engines.hosts import own_address
from course_utils.engines.logs import number_of_task, tail, words_of_task
from course_utils.engines.starting import (
    StartError,
    connection_of,
    environment,
    wait_for_new,
)

if TYPE_CHECKING:
    from ipyparallel import Cluster

NOT_SEEN = 97  # exit code of the script if its host does not see the folder
LOOK = 1.0  # seconds between two looks at the queue
GONE = 15.0  # seconds until a job that was cancelled has ended


class OnSlurm(HandedOver):
    """A cluster whose engines are the tasks of one job of Slurm's.

    What a profile sets for ipyparallel's launcher holds: queue, account, options,
    or a whole template of the script.
    """

    says = True

    def __init__(
        self,
        world_size: int,
        engines: str | type | None,
        profile: str | None,
        hosts: list[str] | None = None,
    ) -> None:
        self.job, self.steps = "", []  # the job, and what was started in it later
        self._looked = 0.0
        super().__init__(world_size, engines, profile, hosts)

    def make_folder(self) -> Path:
        """Make the private folder of the world where the nodes see it, too."""
        return shared_folder()

    def configure(self, cluster: Cluster) -> None:
        """Let the tasks be engines that end with the controller."""
        from course_utils.engines.slurm_job import SlurmJob

        if cluster.engine_launcher_class.__module__.startswith("ipyparallel"):
            cluster.engine_launcher_class = SlurmJob
        command = [sys.executable, *TASK, "SLURM_PROCID"]
        if "engine_cmd" not in cluster.config.EngineLauncher:
            cluster.config.EngineLauncher.engine_cmd = command

    def address(self, cluster: Cluster) -> str:
        """Return the address at which the nodes reach this machine."""
        node = slurm.first_node()
        return own_address([node] if node else [])

    def begin(self) -> None:
        """Submit the job."""
        try:
            super().begin()
        except slurm.SlurmError as error:
            self.cluster.engines.clear()
            raise StartError(f"Slurm did not take the job: {error}") from None
        self.job = self.cluster.engine_set.job_id

    def check_started(self) -> None:
        """Show the state of the queue; raise StartError if the job has ended."""
        super().check_started()
        if not self.job or time.monotonic() < self._looked + LOOK:
            return
        self._looked = time.monotonic()
        state, reason = slurm.state_of(self.job)
        if state not in slurm.GOING_ON:
            raise StartError(self.why_ended(state))
        self.tell(self.described(state, reason))

    def described(self, state: str, reason: str) -> str:
        """Say how it stands with the job."""
        return f"Slurm's job {self.job} is {state}" + (f" ({reason})" if reason else "")

    def why_ended(self, state: str) -> str:
        """Say why the job ended before its ranks had started."""
        text = f"Slurm's job {self.job} ended before the ranks had started"
        text += f" ({state})" if state else ""
        if slurm.exit_code_of(self.job) == NOT_SEEN:
            return (
                f"{text}: its node does not see {self.folder}. Start the notebook in a "
                "folder that all nodes see"
            )
        return f"{text}; its last words:\n{self.start_words()}"

    def words(self) -> str:
        """Return the end of what the job wrote."""
        log = Path(self.cluster.engine_set.output_file)
        return tail(log.read_text(errors="replace"), 100) if log.exists() else ""

    def late(self) -> str:
        """Say why engines may not have come in time."""
        how = self.described(*slurm.state_of(self.job))
        return f"{how}; launch(…, start_timeout=3600) waits longer"

    def how_ended(self, pid: int, host: str) -> int | None:
        """Return how a process ended, as far as srun has said so."""
        number = number_of_task(self.folder, pid, host)
        return slurm.ending_of(int(number), self.words()) if number else None

    def last_words(self, rank: int, pid: int | None = None, host: str = "") -> str:
        """Return the end of what the engine of `rank` wrote before it ended."""
        return words_of_task(self.folder, host or "*", pid or "*")

    def replace(
        self, rank: int, limit: float, pid: int | None = None, host: str = ""
    ) -> int:
        """Start a new engine within the job, on the host of one that has ended."""
        state, _ = slurm.state_of(self.job)
        if state != "RUNNING":
            raise StartError(
                f"Slurm's job {self.job} has ended ({state or 'gone'}): "
                "call launch() again"
            )
        known = set(self.client._engines.values())
        engine = [sys.executable, *TASK, "-", *self.cluster.engine_set.engine_args]
        kill = f"kill -9 {pid} 2>/dev/null; " if pid else ""
        step = ["srun", f"--jobid={self.job}", "--overlap", "--nodes=1", "--ntasks=1"]
        step += [*slurm.STEP, f"--nodelist={host.partition('.')[0]}"]
        said = self.folder / "log" / f"step-{rank}-{len(self.steps)}.log"
        with open(said, "wb") as log:
            started = subprocess.Popen(
                [*step, "sh", "-c", f'{kill}exec "$@"', "engine", *engine],
                env={**os.environ, **self.variables()},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.steps.append(started)

        def check() -> None:
            if started.poll() is not None:
                raise StartError(NOT_BACK.format("srun", rank, host, last_of(said)))

        return wait_for_new(self.client, known, [rank], limit, check)[0]

    def variables(self) -> dict[str, str]:
        """Return the variables that an engine needs."""
        return {
            **environment(),
            CONNECTION: connection_of(self.cluster),
            "IPP_PROFILE_DIR": str(self.folder),
            "IPP_CLUSTER_ID": self.folder.name,
        }

    def end(self) -> list[str]:
        """Cancel the job, and wait until it has ended."""
        try:
            super().end()
            self.wait_for_end()
        except slurm.SlurmError:
            return [f"Slurm's job {self.job}"]
        return []

    def wait_for_end(self) -> None:
        """Wait until a job that was cancelled has ended."""
        deadline = time.monotonic() + GONE
        while self.job and slurm.state_of(self.job)[0] in slurm.GOING_ON:
            if time.monotonic() > deadline:
                raise slurm.SlurmError(f"job {self.job} does not end")
            time.sleep(0.2)
        for step in self.steps:
            step.wait(GONE)
