"""The engines behind the ranks: who lives, what they do, how they are stopped."""

from __future__ import annotations

import signal
import socket
import time
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Any

import psutil

from course_utils.engines import machine
from course_utils.engines.logs import exit_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from course_utils.engines.forked import Forked
    from course_utils.engines.handed_over import HandedOver

UNHEARD = "not heard any more; it has ended, or its host is out of reach"
START_LIMIT = 60.0  # seconds for one new engine


class Control:
    """The engines of a world, addressed by rank."""

    def __init__(self, cluster: Forked | HandedOver) -> None:
        self.cluster = cluster
        self.ids = sorted(cluster.client.ids)  # engine id of each rank, by rank
        self.view = cluster.client.direct_view(self.ids)
        self.view.block = True
        self.pids: dict[int, int] = {}
        self.hosts: list[str] = []
        self.addresses: list[str] = []
        self.master: tuple[str, int] | None = None
        self.held: socket.socket | None = None  # keeps the master's port from others

    def __len__(self) -> int:
        return len(self.ids)

    def host(self, rank: int) -> str:
        """Return the name of a rank's host; "" before it is known."""
        return self.hosts[rank] if self.hosts else ""

    def place(self, rank: int) -> str:
        """Say where a rank runs, as in " on node2"; "" where all run on one host."""
        return f" on {self.hosts[rank]}" if len(set(self.hosts)) > 1 else ""

    def request(
        self, kind: str, content: dict[str, Any], ranks: Iterable[int], limit: float
    ) -> dict[int, dict]:
        """Ask ranks, while they work, through the thread that serves such requests.

        kind: of the control message, which something on the rank answers.
        Returns the answers that came within `limit` seconds, by rank.
        """
        sent = {}
        for rank in ranks:
            sent[rank] = self._request([self.ids[rank]], kind, content)
        wait(sent.values(), timeout=limit)
        return {r: f.result()[0]["content"] for r, f in sent.items() if f.done()}

    def _request(self, ids: list[int], kind: str, content: dict[str, Any]) -> Future:
        return self.cluster.client._send_control_request(ids, kind, content, False)

    def is_dead(self, rank: int) -> bool:
        """Tell whether the engine of a rank has ended."""
        if self.ids[rank] not in self.cluster.client._engines:  # `ids` is a copy
            return True
        if self.is_lost(rank):
            return True
        pid = self.pids.get(rank)
        return self.cluster.local and pid is not None and not machine.is_process(pid)

    def is_lost(self, rank: int) -> bool:
        """Tell whether the host of a rank is known to be out of reach."""
        return self.cluster.is_gone(self.host(rank))

    def dead(self) -> list[int]:
        """Return the ranks whose engine has ended."""
        dead = [rank for rank in range(len(self)) if self.is_dead(rank)]
        if dead and self.cluster.finish_off(list(self.pids.values())):
            dead = [rank for rank in range(len(self)) if self.is_dead(rank)]
        return dead

    def is_stopped(self, rank: int) -> bool:
        """Tell whether a rank of this machine is stopped by a signal."""
        return self.cluster.local and self.activity(rank)[0] == psutil.STATUS_STOPPED

    def activity(self, rank: int) -> tuple[str, float]:
        """Return the status of a rank's main thread and the rank's CPU seconds.

        The status is "" for a rank on a machine that does not tell, or whose pid is
        not yet known.
        """
        pid = self.pids.get(rank)
        if pid is None:
            return "", 0.0
        if not self.cluster.local:
            return self.cluster.activity(pid, self.hosts[rank]) or ("", 0.0)
        try:
            process = psutil.Process(pid)
            return process.status(), sum(process.cpu_times()[:2])
        except psutil.NoSuchProcess:
            return "", 0.0

    def ending(self, rank: int) -> str:
        """Say how a dead rank ended, as in "signal 9, SIGKILL"."""
        pid, host = self.pids.get(rank), self.host(rank)
        if self.is_lost(rank):
            return "its host is out of reach"
        code = None if pid is None else self.cluster.exit_code(pid, host)
        return exit_text(code) if code is not None or self.cluster.local else UNHEARD

    def last_words(self, rank: int) -> str:
        """Return the last lines of a rank's log."""
        return self.cluster.last_words(rank, self.pids.get(rank), self.host(rank))

    def interrupt(self, ranks: list[int]) -> None:
        """Interrupt Python code on ranks, as Ctrl-C does."""
        self._signal("SIGINT", ranks)

    def kill(self, rank: int) -> None:
        """Kill the process of a rank, and wait until it is gone."""
        self._signal("SIGKILL", [rank])
        deadline = time.monotonic() + 5
        while not self.is_dead(rank) and time.monotonic() < deadline:
            time.sleep(0.01)

    def _signal(self, name: str, ranks: list[int]) -> None:
        if not ranks:
            return
        pids = [self.pids.get(rank) for rank in ranks]
        if self.cluster.signals and None not in pids:
            self.cluster.signal(pids, getattr(signal, name))
        else:
            ids = [self.ids[rank] for rank in ranks]
            wait([self._request(ids, "signal_request", {"sig": name})], timeout=1)

    def replace(self, ranks: list[int]) -> None:
        """Start new engines in the place of dead ones."""
        if len(ranks) == len(self) and self.cluster.together:
            hosts = [self.host(rank) for rank in ranks]
            self.ids[:] = self.cluster.start_anew(ranks, hosts, START_LIMIT)
            self.pids.clear()
        else:
            for rank in ranks:
                pid, host = self.pids.get(rank), self.host(rank)
                self.ids[rank] = self.cluster.replace(rank, START_LIMIT, pid, host)
                self.pids.pop(rank, None)
        self.view.targets = self.ids

    def drop(self, ranks: list[int]) -> None:
        """Forget ranks; those behind them move up."""
        for listed in (self.ids, self.hosts, self.addresses):
            listed[:] = [item for rank, item in enumerate(listed) if rank not in ranks]
        self.view.targets = self.ids
        self.pids.clear()

    def reorder(self, order: list[int]) -> None:
        """Make the engine at position ``order[i]`` rank i."""
        self.ids[:] = [self.ids[i] for i in order]
        self.view.targets = self.ids

    def ranks_of(self, ids: int | Iterable[int] | str) -> list[int]:
        """Return the ranks of engine ids."""
        if isinstance(ids, str):
            return list(range(len(self)))
        ids = [ids] if isinstance(ids, int) else ids
        return [self.ids.index(i) for i in ids]
