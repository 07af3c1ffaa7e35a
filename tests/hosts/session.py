"""A session on a host, in which cells run one by one, as in a notebook."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab import Lab

DRIVER = Path(__file__).with_name("driver.py")
LIMIT = 120.0  # seconds for one cell


class Session:
    """A Python on a host that runs cells; it stands for a notebook's kernel.

    variables: of its environment.
    """

    def __init__(self, lab: Lab, folder: Path, variables: dict[str, str]) -> None:
        self.lab, self.host = lab, "login"
        self._err = open(folder / "session.err", "a+")
        given = [f"{name}={value}" for name, value in variables.items()]
        driver = (sys.executable, DRIVER)
        self._process = subprocess.Popen(
            [*lab.inside(self.host), "env", "CI=1", *given, *driver, folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._err,
            text=True,
        )
        self.pid = self._reply()["pid"]
        self.seconds = 0.0  # that the last cell took

    def run(self, cell: str) -> dict[str, str]:
        """Run a cell; return what it printed, its value, and its error."""
        started = time.monotonic()
        print(json.dumps(cell), file=self._process.stdin, flush=True)
        reply = self._reply()
        self.seconds = time.monotonic() - started
        return reply

    def good(self, cell: str) -> str:
        """Run a cell that must not fail; return what it printed."""
        reply = self.run(cell)
        assert not reply["error"], f"{cell}\n{reply['error']}\n{self.words()}"
        return reply["printed"].rstrip()

    def value(self, expression: str) -> object:
        """Return the value of an expression, which its repr must show."""
        reply = self.run(f"__ = {expression}\n__")
        assert not reply["error"], f"{expression}\n{reply['error']}\n{self.words()}"
        return ast.literal_eval(reply["value"])

    def failure(self, cell: str) -> str:
        """Run a cell that must fail; return its error, after the name of its type."""
        reply = self.run(cell)
        assert reply["error"], f"this cell should have failed:\n{cell}\n{reply}"
        return reply["error"]

    def kill(self) -> None:
        """Kill the session, as a kernel may be killed."""
        self.lab.run(self.host, f"kill -9 {self.pid}")
        self._process.wait(LIMIT)

    def end(self) -> None:
        """End the session, and close what leads to it."""
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process.stdout.close()
        self._err.close()

    def words(self) -> str:
        """Return the end of what the session wrote beside its replies."""
        self._err.seek(0)
        return self._err.read()[-2000:]

    def _reply(self) -> dict[str, str]:
        timer = threading.Timer(LIMIT, self._process.kill)
        timer.start()
        try:
            line = self._process.stdout.readline()
        finally:
            timer.cancel()
        assert line, f"the session has ended:\n{self.words()}"
        return json.loads(line)


@contextmanager
def session(lab: Lab, folder: Path, **variables: str) -> Iterator[Session]:
    """Open a session on `login`, and end it."""
    opened = Session(lab, folder, variables)
    try:
        opened.good("import os\nfrom course_utils import launch")
        yield opened
    finally:
        opened.end()
