"""A cluster on hosts inside this machine, for all that a network can do to ranks.

The engines are forked from one process, as on one host, and each enters the network
of its host (see `namespaces`). They reach the controller over the host's cable; the
notebook reaches it through sockets in the world's private folder.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path
from threading import Timer

from course_utils.engines.fork import NoHosts
from course_utils.engines.forked import Forked
from course_utils.engines.heartbeat import CONNECTION
from course_utils.engines.hosts import EXAMPLE, INTERFACE, SWITCH
from course_utils.engines.logs import LOG, tail
from course_utils.engines.starting import (
    ENGINE,
    StartError,
    environment,
    wait_for_new,
)
from course_utils.engines.without_nanny import settings

BEATS = [  # a host that has gone is noticed in 8 s
    "--HeartMonitor.period=100",  # ms
    "--HeartMonitor.max_heartmonitor_misses=80",
]
INTERFACES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")  # variables
PATH_LIMIT = 80  # bytes that the path of the folder may have: sockets lie in it
WHY = "hosts={}: this machine does not let you make networks ({}); {}"
CURE = (
    "root may, or whoever may make user namespaces (sysctl user.max_user_namespaces, "
    "kernel.apparmor_restrict_unprivileged_userns; docker run --privileged). "
    f"Without hosts all ranks run on one, and {EXAMPLE} takes real ones"
)


class InNamespaces(Forked):
    """A cluster on hosts inside this machine: namespaces, joined by cables. Linux only.

    room: how many ranks run on each host; rate: bytes a second that a cable carries,
    0 for as many as it can; preload: as in `Forked`.
    """

    local = False  # what is on a host may be out of reach

    def __init__(self, room: dict[str, int], rate: int, preload: list[str]) -> None:
        self.network = {"hosts": len(room), "rate": rate}
        self.names = list(room)
        self.room, self.unplugged = room, set()
        self.later = Timer(0, lambda: None)  # pulls or plugs a cable
        self.engines: dict[int, tuple[str, int, str]] = {}  # id: host, pid, log
        super().__init__(sum(room.values()), preload)

    def make_folder(self) -> Path:
        """Make the private folder of the world, whose path is short."""
        folder = super().make_folder()
        if len(os.fsencode(folder)) <= PATH_LIMIT:
            return folder
        folder.rmdir()
        return Path(tempfile.mkdtemp(prefix="ranks-", dir="/tmp"))

    def listening(self) -> list[str]:
        """Return the controller's settings: where it listens, and its heartbeat."""
        return [
            f"--IPController.engine_ip={SWITCH}",
            "--IPController.client_transport=ipc",
            f"--IPController.client_ip={self.folder}/c",
            *BEATS,
        ]

    def start(self, limit: float) -> None:
        """Start controller and engines, and connect; `limit` in seconds."""
        try:
            super().start(limit)
        except NoHosts as error:
            why = WHY.format(len(self.room), error, CURE)
            raise StartError(why) from None

    def begin(self) -> None:
        """Fork the engines; they register later."""
        self.environment = {
            **environment(),
            **dict.fromkeys(INTERFACES, INTERFACE),
            CONNECTION: json.dumps(self.connection["engine"]),
        }
        owners = [name for name, count in self.room.items() for _ in range(count)]
        for rank, host in enumerate(owners):
            wanted = [f"--IPEngine.id={rank}"]
            self.engines[rank] = self.fork(str(rank), host, wanted)

    def fork(self, name: str, host: str, wanted: list[str]) -> tuple[str, int, str]:
        """Fork an engine on a host; return host, pid and log."""
        name = f"ipengine-{name}"
        log = str(self.parent.log_of(name))
        argv = [*self.common, *ENGINE, *settings(name), *wanted]
        env = {**self.environment, LOG: log}
        place = self.names.index(host)
        return host, self.parent.engine(name, argv, env, place), log

    def peer(self) -> str:
        """Return the address of the notebook's side, as the engines see it."""
        return SWITCH

    def ended(self) -> dict[int, int]:
        """Return the exit codes of engines that have ended, by number."""
        codes = self.parent.exits()
        pids = {rank: pid for rank, (_, pid, _) in self.engines.items()}
        return {rank: codes[pid] for rank, pid in pids.items() if pid in codes}

    def exit_code(self, pid: int, host: str = "") -> int | None:
        """Return how a process ended; None if it has not."""
        return self.parent.exits().get(pid)

    def last_words(self, rank: int, pid: int | None = None, host: str = "") -> str:
        """Return the end of what the engine of `rank` wrote before it ended."""
        logs = {known: log for _, known, log in self.engines.values()}
        if pid not in logs:
            log = self.engines[rank][2] if rank in self.engines else ""
        else:
            log = logs[pid]
        path = Path(log)
        return tail(path.read_text(errors="replace"), 200) if path.is_file() else ""

    def activity(self, pid: int, host: str) -> tuple[str, float] | None:
        """Return a process's status and CPU seconds; None if its host is unplugged."""
        if host in self.unplugged:
            return None
        import psutil  # here, so that `doctor` can say that it is missing

        try:
            process = psutil.Process(pid)
            return process.status(), sum(process.cpu_times()[:2])
        except psutil.NoSuchProcess:
            return None

    def signal(self, pids: list[int], number: int) -> None:
        """Send a signal to engines that live, but for those on unplugged hosts."""
        places = {pid: host for host, pid, _ in self.engines.values()}
        super().signal([p for p in pids if places.get(p) not in self.unplugged], number)

    def is_gone(self, host: str) -> bool:
        """Tell whether a host has fallen silent, although a process there lives."""
        there = self.client.ids
        return any(
            id_ not in there and name == host and is_awake(pid)
            for id_, (name, pid, _) in self.engines.items()
        )

    def plug(self, host: str, on: bool, after: float = 0) -> None:
        """Plug the cable of a host in, or pull it out, `after` seconds from now."""
        self.later.cancel()
        if after:
            self.later = Timer(after, self.plug, (host, on))
            self.later.daemon = True
            self.later.start()
            return
        self.parent.plug(self.names.index(host), on)
        (self.unplugged.discard if on else self.unplugged.add)(host)

    def stop(self) -> list[str]:
        """End every process of this cluster, at once; return no hosts."""
        self.later.cancel()
        return super().stop()

    def replace(
        self, rank: int, limit: float, pid: int | None = None, host: str = ""
    ) -> int:
        """Fork a new engine on the host of one that has ended; return its id."""
        if host in self.unplugged:
            raise StartError(
                f"host {host} is out of reach: ranks.plug({host!r}) plugs its cable "
                "in again, ranks.shrink() goes on without it"
            )
        self.end_lost(host)
        known = set(self.client._engines.values())
        forked = self.fork(f"{rank}.{time.monotonic_ns()}", host, [])
        (id_,) = wait_for_new(self.client, known, [rank], limit)
        self.engines[id_] = forked
        return id_

    def end_lost(self, host: str) -> None:
        """End engines of a host that count as dead, and may live."""
        gone, there = self.is_gone(host), self.client.ids
        for id_, (name, pid, _) in list(self.engines.items()):
            if name == host and (gone or id_ not in there):
                self.parent.kill(pid)
                del self.engines[id_]


def is_awake(pid: int) -> bool:
    """Tell whether a process lives and is not stopped by a signal."""
    import psutil

    try:
        status = psutil.Process(pid).status()
    except psutil.NoSuchProcess:
        return False
    return status not in (psutil.STATUS_ZOMBIE, psutil.STATUS_STOPPED)
