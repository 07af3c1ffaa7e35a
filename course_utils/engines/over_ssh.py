"""A cluster on hosts that are reached over ssh, each with a process that forks."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from course_utils.engines import ssh
from course_utils.engines.handed_over import HandedOver
from course_utils.engines.heartbeat import CONNECTION
from course_utils.engines.host import Host, HostGone
from course_utils.engines.hosts import EXAMPLE, fill, own_address, read_hosts
from course_utils.engines.logs import number
from course_utils.engines.starting import (
    ENGINE,
    StartError,
    connection_of,
    wait_for_new,
)

if TYPE_CHECKING:
    from ipyparallel import Cluster

LOOK = 0.5  # seconds between two questions whether engines have ended
ACTIVITY = 0.5  # seconds in which a host says what a process does


class OverSSH(HandedOver):
    """A cluster on hosts that are reached over ssh.

    ipyparallel's launcher starts one engine after another, with half a dozen
    connections each. Here every host gets one connection, and forks its engines; what
    a profile sets for the launcher holds.

    preload: modules that every engine needs, beside torch and ipyparallel's own.
    """

    def __init__(
        self,
        world_size: int,
        engines: str | type | None,
        profile: str | None,
        hosts: list[str] | None = None,
        preload: list[str] | None = None,
    ) -> None:
        self.preload = preload or []
        self.room = read_hosts(hosts, world_size) if hosts else {}
        self.over: dict[str, Host] = {}
        self.names: dict[tuple[str, int], str] = {}  # of engines, by host and pid
        self._looked, self._ended = 0.0, {}
        super().__init__(world_size, engines, profile, hosts)

    def start(self, limit: float) -> None:
        """Start controller and engines, and connect; `limit` in seconds."""
        self._limit, self._deadline = limit, time.monotonic() + limit
        try:
            super().start(limit)
        except HostGone as error:
            raise StartError(str(error)) from None

    def configure(self, cluster: Cluster) -> None:
        """Begin to start the process on every host; its imports take longest."""
        if not self.room:
            listed = ssh.rooms(cluster.engine_launcher_class(parent=cluster))
            if not listed:
                raise StartError(
                    f"profile={self.profile!r} lists no hosts: set "
                    "c.SSHEngineSetLauncher.engines there, or name them here, as in "
                    f"{EXAMPLE}"
                )
            self.room = fill(listed, self.world_size)
        for name in self.room:
            self.over[name] = self.connect(name, cluster)

    def address(self, cluster: Cluster) -> str:
        """Return the address at which the engines reach this machine."""
        return own_address(ssh.parts(host)[1] for host in self.room)

    def connect(self, name: str, cluster: Cluster) -> Host:
        """Begin to start the process on a host."""
        settings = cluster.engine_launcher_class(parent=cluster)
        job = {"preload": self.preload, "limit": self._limit}
        job["environment"] = cluster.config.EngineLauncher.environment
        lead = ssh.command(name, settings)
        return Host(name, lead, ssh.python(name, settings), job)

    def begin(self) -> None:
        """Fork the engines, once every host is ready."""
        rank = 0
        self.environment = {
            **self.cluster.config.EngineLauncher.environment,
            CONNECTION: connection_of(self.cluster),
        }
        for name in self.room:
            self.greet(self.over[name], self._deadline - time.monotonic())
        for name, count in self.room.items():
            for _ in range(count):
                self.fork(self.over[name], str(rank), [f"--IPEngine.id={rank}"])
                rank += 1

    def greet(self, host: Host, limit: float) -> None:
        """Wait until a host is ready, and tell it whose heartbeat to follow."""
        host.wait(limit)
        host.ask("follow", limit, env=self.environment)

    def fork(self, host: Host, name: str, wanted: list[str]) -> None:
        """Fork an engine on a host."""
        arguments = [f"--cluster-id={self.folder.name}", *ENGINE, *wanted]
        spec = {"argv": arguments, "env": self.environment, "cwd": os.getcwd()}
        pid = host.ask("fork", name=name, **spec)["pid"]
        self.names[host.hostname, pid] = name

    def host_of(self, hostname: str) -> Host:
        """Return the host that calls itself so."""
        return next(h for h in self.over.values() if h.hostname == hostname)

    def check_started(self) -> None:
        """Raise an error if the controller or a host's process has ended."""
        super().check_started()
        for host in self.over.values():
            host.check()

    def ended(self) -> dict[int, int]:
        """Return the exit codes of engines that have ended, by number."""
        if time.monotonic() > self._looked + LOOK:
            self._looked = time.monotonic()
            for host in self.over.values():
                codes = host.ask("exits")["exits"]
                for pid, code in codes.items():
                    if name := self.names.get((host.hostname, int(pid))):
                        self._ended[number(name)] = code
        return self._ended

    def exit_code(self, pid: int, host: str = "") -> int | None:
        """Return how a process ended; None if its host is out of reach."""
        try:
            return self.host_of(host).ask("exits")["exits"].get(str(pid))
        except HostGone:
            return None

    def activity(self, pid: int, host: str) -> tuple[str, float] | None:
        """Return a process's status and CPU seconds; None if that cannot be known."""
        try:
            seen = self.host_of(host).ask("look", ACTIVITY, pid=pid)
        except HostGone:
            return None
        return seen["status"], seen["spent"]

    def is_gone(self, host: str) -> bool:
        """Tell whether a whole host is known to be out of reach."""
        return bool(host) and self.host_of(host).gone

    def last_words(self, rank: int, pid: int | None = None, host: str = "") -> str:
        """Return the end of what the engine of `rank` wrote before it ended."""
        try:
            if host:
                over, name = self.host_of(host), self.names[host, pid]
            else:
                over, name = self.host_at(rank), str(rank)
            return over.ask("words", name=name)["words"]
        except (HostGone, KeyError):
            return ""

    def host_at(self, rank: int) -> Host:
        """Return the host of a rank of the first engines."""
        owners = [name for name, count in self.room.items() for _ in range(count)]
        return self.over[owners[rank]]

    def replace(
        self, rank: int, limit: float, pid: int | None = None, host: str = ""
    ) -> int:
        """Fork a new engine on the host of one that has ended; return its id."""
        over = self.host_of(host)
        known = set(self.client._engines.values())
        try:
            if over.gone:
                over = self.reconnect(over.name, limit)
            elif pid is not None:  # one that was stopped may count as dead
                over.ask("kill", pid=pid)
            self.fork(over, f"{rank}.{time.monotonic_ns()}", [])
        except HostGone as error:
            raise StartError(f"{error}\nranks.shrink() goes on without it") from None
        return wait_for_new(self.client, known, [rank], limit)[0]

    def reconnect(self, name: str, limit: float) -> Host:
        """Return a host that was out of reach, if it can be reached again."""
        anew = self.connect(name, self.cluster)
        try:
            self.greet(anew, limit)
        except HostGone:
            anew.end()
            raise
        self.over[name] = anew
        return anew

    def end(self) -> list[str]:
        """End every process of this cluster; return the hosts out of reach."""
        hosts = list(self.over.values())
        with ThreadPoolExecutor(len(hosts) or 1) as pool:
            ended = list(pool.map(Host.end, hosts))
        lost = [
            host.name for host, there in zip(hosts, ended, strict=True) if not there
        ]
        return [*lost, *super().end()]
