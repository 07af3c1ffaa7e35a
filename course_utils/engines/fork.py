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
import threading
import time
from pathlib import Path

PARENT = "course_utils.engines.fork_parent"
START_LIMIT = 120  # seconds; a cold disk can take half a minute to import torch


class ForkParentError(RuntimeError):
    """The fork parent ended, or did not answer."""


class ForkParent:
    """The process that imports torch once and forks the world.

    folder: private folder of the world, which the parent removes at the end.
    controller: ``argv`` of ipcontroller.
    preload: modules that every engine needs, beside torch and ipyparallel's own.
    environment: variables that every process of the world gets.
    """

    def __init__(
        self,
        folder: Path,
        controller: list[str],
        preload: list[str],
        environment: dict[str, str],
    ) -> None:
        self.folder = folder
        self.log = folder / "log" / "parent.log"
        self.log.parent.mkdir(parents=True, exist_ok=True)
        job = {
            "folder": str(folder),
            "client": os.getpid(),
            "preload": preload,
            "controller": self._spec("ipcontroller", controller, {}),
        }
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "course_utils.engines.fork_parent",
                    json.dumps(job),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                bufsize=0,
                env={**os.environ, **environment},
                start_new_session=True,
            )
        self._lock = threading.Lock()
        self._pending = b""

    def _spec(self, name: str, argv: list[str], env: dict[str, str]) -> dict:
        log = str(self.folder / "log" / f"{name}.log")
        return {"name": name, "argv": argv, "env": env, "cwd": os.getcwd(), "log": log}

    def controller(self) -> int:
        """Return the pid of the controller, which is forked at the start."""
        with self._lock:
            return self._reply()["pid"]

    def engine(self, name: str, argv: list[str], env: dict[str, str]) -> int:
        """Fork an engine and return its pid."""
        return self._ask(do="fork", **self._spec(name, argv, env))["pid"]

    def exits(self) -> dict[int, int]:
        """Return exit codes by pid; a negative code is a signal's number."""
        found = self._ask(do="exits")["exits"]
        return {int(pid): code for pid, code in found.items()}

    def check(self) -> None:
        """Raise ForkParentError if the process has ended."""
        if self.process.poll() is not None:
            raise self._ended()

    def end(self, timeout: float = 5) -> None:
        """Kill every process of the world and wait until they are gone."""
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
            try:
                self.process.stdin.write(json.dumps(request).encode() + b"\n")
            except (BrokenPipeError, ValueError):
                raise self._ended() from None
            return self._reply()

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
        return json.loads(line)

    def _ended(self) -> ForkParentError:
        words = self.log.read_text(errors="replace") if self.log.exists() else ""
        return ForkParentError(
            "the process that forks the ranks has ended; its last words:\n"
            + "\n".join(words.splitlines()[-10:])
        )
