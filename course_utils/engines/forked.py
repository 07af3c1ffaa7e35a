"""A cluster whose engines are forked from one process: Linux, the default."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from course_utils.engines.fork import ForkParentError, parent_of
from course_utils.engines.heartbeat import CONNECTION
from course_utils.engines.logs import LOG, number, tail
from course_utils.engines.ports import LOOPBACK
from course_utils.engines.starting import (
    BUSY,
    CONTROLLER,
    ENGINE,
    LOOK,
    NEAR,
    StartError,
    connect,
    environment,
    wait_for_engines,
    wait_for_new,
)
from course_utils.engines.without_nanny import settings

if TYPE_CHECKING:
    from ipyparallel import Client

ENGINE_NAME = "ipengine-"  # begins the name of an engine's process, and of its log


class Forked:
    """A cluster on this machine, forked from one process. Linux only.

    preload: modules that every engine needs, beside torch and ipyparallel's own.
    """

    local = True
    together = False  # engines that start together can do no more than others
    signals = True  # sends them itself
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
        self.client = None

    def make_folder(self) -> Path:
        """Make the private folder of the world (mode 0700)."""
        return Path(tempfile.mkdtemp(prefix="ranks-"))

    def listening(self) -> list[str]:
        """Return the controller's settings: where it listens, and its heartbeat."""
        return [f"--ip={LOOPBACK}", *NEAR]

    def start(self, limit: float) -> None:
        """Start controller and engines, and connect; `limit` in seconds.

        The engines are forked while the client connects.
        """
        self.controller = self.parent.controller()
        self.connection = self.wait_for_controller(limit)
        self.begin()
        self.client = connect(self, self.new_client, limit)
        wait_for_engines(self, limit)
        self.parent.forked()  # reads the replies, of which none may be left

    def wait_for_controller(self, limit: float) -> dict[str, dict]:
        """Return what the controller tells clients and engines, once it does."""
        start = self.folder / "security" / f"ipcontroller-{self.id}"
        files = {kind: Path(f"{start}-{kind}.json") for kind in ("client", "engine")}
        deadline = time.monotonic() + limit
        while not all(file.exists() for file in files.values()):
            self.check_started()
            if time.monotonic() > deadline:
                raise StartError(
                    f"the controller did not start within {limit:.0f} s; {BUSY}"
                )
            time.sleep(LOOK)
        return {kind: json.loads(file.read_text()) for kind, file in files.items()}

    def new_client(self, limit: float) -> Client:
        """Return a client of the controller that answers within `limit` seconds."""
        from course_utils.engines.client import RankClient

        return RankClient(self.connection["client"], timeout=limit)

    def check_started(self) -> None:
        """Raise an error if the fork parent or the controller has ended."""
        self.parent.check()
        if has_ended(self.controller):
            words = self.controller_words() or "(none)"
            raise StartError(f"the controller ended; its last words:\n{words}")

    def controller_words(self) -> str:
        """Return the last lines that the controller wrote."""
        return tail(self.log("ipcontroller"), 10)

    def log(self, name: str) -> str:
        """Return what a process wrote."""
        path = self.parent.log_of(name)
        return path.read_text(errors="replace") if path.exists() else ""

    def begin(self) -> None:
        """Ask for the engines; they register later."""
        for rank in range(self.world_size):
            self.ask_for_engine(str(rank), f"--IPEngine.id={rank}")

    def ask_for_engine(self, name: str, *wanted: str) -> None:
        """Ask for an engine: its number, and what it wants."""
        name = f"{ENGINE_NAME}{name}"
        env = {CONNECTION: json.dumps(self.connection["engine"])}
        env[LOG] = str(self.parent.log_of(name))
        self.parent.ask_for(
            name, [*self.common, *ENGINE, *settings(name), *wanted], env
        )

    def numbers(self) -> dict[int, str]:
        """Return the numbers of all engines so far, by pid."""
        names = self.parent.forked().items()
        return {pid: name.removeprefix(ENGINE_NAME) for pid, name in names}

    def ended(self) -> dict[int, int]:
        """Return the exit codes of engines that have ended, by number."""
        known, codes = self.numbers(), self.parent.exits()
        return {number(n): codes[pid] for pid, n in known.items() if pid in codes}

    def exit_code(self, pid: int, host: str = "") -> int | None:
        """Return how a process ended; None if it has not been heard to.

        A negative code is a signal's number.
        """
        return self.parent.exits().get(pid)

    def last_words(self, rank: int, pid: int | None = None, host: str = "") -> str:
        """Return the end of what the engine of `rank` wrote before it ended.

        pid: of the engine; without it, the last one that was started for `rank`.
        """
        known = self.numbers()
        found = [n for n in known.values() if number(n) == rank]
        name = known.get(pid) or (found[-1] if found else "")
        return tail(self.log(f"{ENGINE_NAME}{name}"), 200)

    def signal(self, pids: list[int], number: int) -> None:
        """Send a signal to engines that live."""
        with suppress(ForkParentError):  # then none does
            self.parent.signal(pids, number)

    def is_gone(self, host: str) -> bool:
        """Tell whether a host is out of reach: this one never is."""
        return False

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
        """Fork a new engine in the place of one that has ended; return its id.

        It takes a new id: the controller may hear late that the old one has ended, and
        forgets whoever has the id then.
        """
        known = set(self.client._engines.values())
        self.ask_for_engine(f"{rank}.{time.monotonic_ns()}")
        return wait_for_new(self.client, known, [rank], limit)[0]

    def stop(self) -> list[str]:
        """End every process of this cluster, at once; return no hosts.

        The fork parent lingers for a moment, for a launch that comes right after.
        """
        self.parent.clear()
        if self.client is not None:
            self.client.close(linger=0)
        shutil.rmtree(self.folder, ignore_errors=True)
        return []


def has_ended(pid: int) -> bool:
    """Tell whether a process has ended, whether or not its parent knows."""
    import psutil  # here, so that `doctor` can say that it is missing

    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
