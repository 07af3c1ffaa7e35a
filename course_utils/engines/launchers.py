"""ipyparallel launcher classes for forked processes.

They let `ipyparallel.Cluster` start, watch, signal and stop what a
`course_utils.engines.fork.ForkParent` forks, as it does with processes of its own.
"""

from __future__ import annotations

from pathlib import Path

import psutil
from ipyparallel import Cluster
from ipyparallel.cluster import launcher
from traitlets import Any


class ForkedCluster(Cluster):
    """An ipyparallel cluster whose processes come from one `ForkParent`."""

    fork_parent = Any()


class ForkedProcess(launcher.LocalProcessLauncher):
    """Watch and signal a forked process as if it had been started here."""

    def _log_output(self, stop_data: dict | None = None) -> None:
        """Leave the log where it is: a report may quote it."""

    def adopt(self, pid: int) -> int:
        """Take charge of the forked process `pid`."""
        self.pid = pid
        self.process = psutil.Process(pid)
        self.notify_start(pid)
        self._start_waiting()
        return pid


class ForkedControllerLauncher(ForkedProcess, launcher.LocalControllerLauncher):
    """The controller that the fork parent forked first."""

    def start(self) -> int:
        return self.adopt(self.parent.fork_parent.controller())


class ForkedEngineLauncher(ForkedProcess, launcher.LocalEngineLauncher):
    """One forked engine; its identifier is its id, or "rank.…" if it is one anew.

    One anew takes a new id: the controller may hear late that the old engine has
    ended, and forgets whoever has the id then.
    """

    def start(self) -> int:
        anew = "." in self.identifier
        wanted = [] if anew else [f"--IPEngine.id={self.identifier}"]
        argv = [*self.cluster_args, *self.engine_args, *wanted]
        env = {**self.get_env(), "COURSE_UTILS_LOG": self.output_file}
        name = Path(self.output_file).stem
        return self.adopt(self.parent.parent.fork_parent.engine(name, argv, env))


class ForkedEngineSetLauncher(launcher.LocalEngineSetLauncher):
    """A set of forked engines; the id of an engine is its rank."""

    launcher_class = ForkedEngineLauncher
    delay = 0.0
