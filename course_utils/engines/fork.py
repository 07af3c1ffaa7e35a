"""Start the fork parent, and talk to it: the client side of `fork_parent`.

Imports only the standard library, so that the parent can begin to import torch
before the client has imported anything itself.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

PARENT = "course_utils.engines.fork_parent"
LINGER = 2.0  # seconds that a parent without a world waits for the next one
START_LIMIT = 120  # seconds; a cold disk can take half a minute to import torch


class ForkParentError(RuntimeError):
    """The fork parent ended, or did not answer."""


class NoHosts(RuntimeError):
    """Hosts inside this machine could not be made; the text is the kernel's."""


_spare: list[ForkParent] = []  # without a world at the moment, if there is one


def parent_of(
    folder: Path,
    controller: list[str],
    preload: list[str],
    environment: dict[str, str],
    network: dict[str, int] | None = None,
) -> ForkParent:
    """Return a fork parent that has begun a world: one at hand, or a new one.

    folder: private folder of the world, which the parent removes at its end.
    controller: ``argv`` of ipcontroller.
    preload: modules that every engine needs, beside torch and ipyparallel's own.
    environment: variables that every process of the world gets.
    network: of hosts inside this machine, the arguments of `namespaces.Network`.
    """
    while _spare:
        parent = _spare.pop()
        parent.timer.cancel()
        try:
            parent.begin(folder, controller, environment, network)
        except ForkParentError:
            parent.end()
        else:
            return parent
    return ForkParent(folder, controller, preload, environment, network)


class ForkParent:
    """The process that imports torch once and forks one world after another.

    See `parent_of` for the arguments.
    """

    def __init__(
        self,
        folder: Path,
        controller: list[str],
        preload: list[str],
        environment: dict[str, str],
        network: dict[str, int] | None = None,
    ) -> None:
        self.log = tempfile.TemporaryFile()
        self.timer = threading.Timer(0, self.end)
        self._enter(folder)
        job = {
            "folder": str(folder),
            "client": os.getpid(),
            "preload": preload,
            "network": network,
            "controller": self._spec("ipcontroller", controller, {}),
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", PARENT, json.dumps(job)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            bufsize=0,
            env={**os.environ, **environment},
            start_new_session=True,
        )
        self._lock = threading.Lock()
        self._pending = b""
        self._expected = 1  # replies that have not been read: the controller's pid

    def _enter(self, folder: Path) -> None:
        self.folder = folder
        self._asked = 0  # engines that were asked for, and whose pid was not read
        self._forked: dict[int, str] = {}  # the others: name by pid
        (folder / "log").mkdir(parents=True, exist_ok=True)

    def begin(
        self,
        folder: Path,
        controller: list[str],
        environment: dict[str, str],
        network: dict[str, int] | None = None,
    ) -> None:
        """Begin the next world, as the first one was begun; see `parent_of`."""
        self._enter(folder)
        self._send(
            do="begin",
            folder=str(folder),
            variables={**os.environ, **environment},
            network=network,
            controller=self._spec("ipcontroller", controller, {}),
        )

    def _spec(
        self, name: str, argv: list[str], env: dict[str, str], host: int | None = None
    ) -> dict:
        spec = {"name": name, "argv": argv, "env": env, "host": host}
        return {**spec, "cwd": os.getcwd(), "log": str(self.log_of(name))}

    def log_of(self, name: str) -> Path:
        """Return the path of the log of a process."""
        return self.folder / "log" / f"{name}.log"

    def controller(self) -> int:
        """Return the pid of the controller, which is forked when a world begins.

        Raises NoHosts where its hosts could not be made.
        """
        with self._lock:
            reply = self._reply()
        if "refused" in reply:
            raise NoHosts(reply["refused"])
        return reply["pid"]

    def ask_for(
        self, name: str, argv: list[str], env: dict[str, str], host: int | None = None
    ) -> None:
        """Ask for an engine, and do not wait until it is forked.

        host: inside this machine, counted from 0, where the world has such.
        """
        with self._lock:
            self._send(do="fork", **self._spec(name, argv, env, host))
            self._asked += 1

    def forked(self) -> dict[int, str]:
        """Return the names of this world's engines, by pid, once all are forked."""
        with self._lock:
            self._take_in_pids()
            return dict(self._forked)

    def engine(self, *spec) -> int:
        """Fork an engine, as `ask_for` does, and return its pid."""
        self.ask_for(*spec)
        return list(self.forked())[-1]

    def _take_in_pids(self) -> None:
        """Read the replies of the engines that were asked for."""
        while self._asked:
            reply = self._reply()
            self._asked -= 1
            self._forked.pop(reply["pid"], None)  # of one before, which has ended
            self._forked[reply["pid"]] = reply["name"]

    def kill(self, pid: int) -> None:
        """Kill a process that was forked here, if it lives."""
        self._ask(do="kill", pid=pid)

    def signal(self, pids: list[int], number: int) -> None:
        """Send a signal to processes that were forked here, if they live."""
        with self._lock:
            self._write(do="signal", pids=pids, number=number)

    def plug(self, host: int, on: bool) -> None:
        """Plug the cable of a host inside this machine in, or pull it out."""
        self._ask(do="plug", host=host, on=on)

    def exits(self) -> dict[int, int]:
        """Return exit codes by pid; a negative code is a signal's number."""
        found = self._ask(do="exits")["exits"]
        return {int(pid): code for pid, code in found.items()}

    def check(self) -> None:
        """Raise ForkParentError if the process has ended."""
        if self.process.poll() is not None:
            raise self._ended()

    def clear(self) -> None:
        """Kill every process of the world, and wait a while for the next one."""
        try:
            if self._expected:  # whoever waited for the reply was interrupted
                raise ForkParentError("a reply was not read")
            self._ask(do="clear")
        except ForkParentError:
            self.end()
            return
        self.timer = threading.Timer(LINGER, self._give_up)
        self.timer.daemon = True
        _spare.append(self)
        self.timer.start()

    def _give_up(self) -> None:
        try:
            _spare.remove(self)
        except ValueError:  # it was taken at this moment
            return
        self.end()

    def end(self, timeout: float = 5) -> None:
        """Kill every process of the world and wait until they are gone."""
        self.timer.cancel()
        try:
            self.process.stdin.write(b'{"do": "end"}\n')
            self.process.stdin.close()
        except (BrokenPipeError, ValueError):  # it has ended
            pass
        try:
            self.process.wait(timeout)
        except subprocess.TimeoutExpired:  # its children die with it
            self.process.kill()
            self.process.wait(timeout)
        self.process.stdout.close()

    def _ask(self, **request) -> dict:
        with self._lock:
            self._take_in_pids()
            self._send(**request)
            return self._reply()

    def _send(self, **request) -> None:
        """Send a request, whose reply `_reply` is to read."""
        self._write(**request)
        self._expected += 1

    def _write(self, **request) -> None:
        """Send a request."""
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
        except (BrokenPipeError, ValueError):
            raise self._ended() from None

    def _reply(self) -> dict:
        deadline = time.monotonic() + START_LIMIT
        while b"\n" not in self._pending:
            left = max(0, deadline - time.monotonic())
            if not select.select([self.process.stdout], [], [], left)[0]:
                raise ForkParentError(
                    f"the fork parent did not answer in {START_LIMIT} s"
                )
            chunk = os.read(self.process.stdout.fileno(), 65536)
            if not chunk:
                raise self._ended()
            self._pending += chunk
        line, _, self._pending = self._pending.partition(b"\n")
        self._expected -= 1
        return json.loads(line)

    def _ended(self) -> ForkParentError:
        size = os.fstat(self.log.fileno()).st_size
        words = os.pread(self.log.fileno(), size, 0).decode(errors="replace")
        return ForkParentError(
            "the process that forks the ranks has ended; its last words:\n"
            + "\n".join(words.splitlines()[-10:])
        )
