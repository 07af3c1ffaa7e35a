"""Fork the engines of one host of several, as `fork_parent` does on one machine.

Started by `engines.host` over ssh, as ``python -m course_utils.engines.on_host JOB``.
All that it forks ends with it, and it ends when the connection closes, or when the
controller falls silent: a cable may be pulled, and then nothing closes.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import tempfile
from pathlib import Path

import psutil

from course_utils.engines.fork_parent import World, engine, streams
from course_utils.engines.heartbeat import end_parent
from course_utils.engines.logs import LOG, tail

NANNY = "ipyparallel.engine.nanny"  # every engine of a host has one


def main() -> None:
    """Serve requests until the world ends."""
    job = json.loads(sys.argv[1])
    os.environ.update(job["environment"])  # torch reads some when it is imported
    world = HostWorld(job, *streams())
    world.tell(host=socket.gethostname())
    world.watch_client()
    world.serve(engine([NANNY, *job["preload"]]))


class HostWorld(World):
    """The processes of a world on this host.

    job: preload: modules that every engine needs; environment: variables of all
        processes; limit: seconds until the client must have come so far that it asks
        for the first of them.
    """

    def __init__(self, job: dict, requests: int, replies: int) -> None:
        folder = tempfile.mkdtemp(prefix="ranks-")  # mode 0700
        super().__init__({"folder": folder}, requests, replies)
        self.asked = 0  # the number of the request that is being answered
        signal.signal(signal.SIGALRM, lambda *_: self.end())
        signal.alarm(int(job["limit"]))

    def abandoned(self) -> bool:
        """Tell whether the connection has been closed."""
        gone = select.poll()
        gone.register(self.requests, select.POLLHUP | select.POLLRDHUP)
        return bool(gone.poll(0))

    def tell(self, **message) -> None:
        """Send the reply to a request."""
        super().tell(id=self.asked, **message)

    def answer(self, request: dict, engine_main) -> None:
        """Carry out one request of the client."""
        self.asked = request["id"]
        if request["do"] == "follow":
            signal.alarm(0)
            self.fork(end_parent, {"name": "heartbeat", "argv": [], **request})
        elif request["do"] == "look":
            self.tell(**activity(request["pid"]))
        elif request["do"] == "words":
            self.tell(words=self.words(request["name"]))
        else:
            super().answer(request, engine_main)

    def fork(self, main, spec: dict) -> None:
        """Fork a child, in this host's own folder."""
        log = self.log(spec["name"])
        cwd = spec.get("cwd", "")
        spec = {
            **spec,
            "log": log,
            "argv": [f"--profile-dir={self.folder}", *spec["argv"]],
            "env": {**spec["env"], LOG: log},
            "cwd": cwd if os.path.isdir(cwd) else os.getcwd(),
        }
        super().fork(main, spec)

    def log(self, name: str) -> str:
        """Return the path of the log of a process."""
        return f"{self.folder}/{name}.log"

    def words(self, name: str) -> str:
        """Return the end of what a process wrote."""
        log = Path(self.log(name))
        return tail(log.read_text(errors="replace"), 200) if log.exists() else ""


def activity(pid: int) -> dict[str, object]:
    """Return the status of a process's main thread and the process's CPU seconds."""
    try:
        process = psutil.Process(pid)
        return {"status": process.status(), "spent": sum(process.cpu_times()[:2])}
    except psutil.NoSuchProcess:
        return {"status": "", "spent": 0.0}


if __name__ == "__main__":
    main()
