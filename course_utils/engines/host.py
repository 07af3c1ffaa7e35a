"""A host of a world, reached over ssh: the client's side of `on_host`."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import tempfile
import threading
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NoAnswer

from course_utils.engines.logs import tail

ON_HOST = "course_utils.engines.on_host"
ANSWER = 20.0  # seconds in which a host answers, or its ssh ends
STOP = 5.0  # seconds until all is gone there


class HostGone(RuntimeError):
    """A host cannot be reached, or what ran there has ended."""


class Host:
    """A host, and the process there that forks engines.

    name: as the user wrote it; hostname: as the host calls itself.
    lead: the command that leads to the host.
    python: path of its Python; job: see `on_host`.
    """

    def __init__(self, name: str, lead: list[str], python: str, job: dict) -> None:
        self.name, self.hostname, self.gone = name, name, False
        self._log = tempfile.TemporaryFile()
        self._lock = threading.Lock()
        self._pending: dict[int, Future] = {0: Future()}  # it speaks first
        self._count = 0
        remote = f"exec {shlex.join([python, '-m', ON_HOST, json.dumps(job)])}"
        self.process = subprocess.Popen(
            [*lead, remote],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,
        )
        self._hello = self._pending[0]
        threading.Thread(target=self._read, name=f"host {name}", daemon=True).start()

    def wait(self, limit: float) -> None:
        """Wait until the host has answered."""
        self.hostname = self._result(self._hello, limit)["host"]

    def check(self) -> None:
        """Raise HostGone if the process there has ended."""
        if self.gone:
            raise self._lost()

    def ask(self, do: str, limit: float = ANSWER, **request) -> dict:
        """Send a request, and return the reply; raise HostGone if none comes."""
        with self._lock:
            self.check()
            self._count += 1
            future = self._pending[self._count] = Future()
            line = json.dumps({"do": do, "id": self._count, **request})
            try:
                self.process.stdin.write(line.encode() + b"\n")
                self.process.stdin.flush()
            except (OSError, ValueError):
                raise self._lost() from None
        return self._result(future, limit)

    def _result(self, future: Future, limit: float) -> dict:
        try:
            return future.result(limit)
        except NoAnswer:
            raise HostGone(
                f"host {self.name} did not answer in {limit:.0f} s"
            ) from None

    def _read(self) -> None:
        """Hand out replies, until there are no more."""
        for line in self.process.stdout:
            try:
                reply = json.loads(line)
                future = self._pending.pop(reply.pop("id"))
            except (ValueError, AttributeError, KeyError, TypeError):
                continue  # what a login shell over there has to say
            future.set_result(reply)
        self.process.wait()
        with self._lock:
            self.gone = True
            for future in self._pending.values():
                future.set_exception(self._lost())
            self._pending.clear()

    def words(self) -> str:
        """Return the last lines of what ssh, or the process over there, wrote."""
        size = os.fstat(self._log.fileno()).st_size
        return tail(os.pread(self._log.fileno(), size, 0).decode(errors="replace"), 10)

    def _lost(self) -> HostGone:
        return HostGone(
            f"host {self.name} is not there; the last words of its connection:\n"
            f"{self.words() or '(none)'}"
        )

    def end(self) -> bool:
        """End all that runs there; return False if it could not be reached."""
        there = not self.gone
        try:
            self.ask("end", limit=STOP)
        except HostGone:  # the last words are no reply
            pass
        try:
            self.process.stdin.close()
        except OSError:
            pass
        try:
            there &= self.process.wait(STOP) == 0
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            there = False
        return there
