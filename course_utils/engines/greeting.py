"""The heart monitor of a forked world: engines are heard as soon as they live.

ipyparallel's pings all hearts once in a period, and tells at the next ping who has
answered: a new engine waits for one and a half periods on average. This one pings
when a heart begins to listen, and tells of a new heart when it answers.

ipyparallel's runs in a fork of the controller, which has threads of zmq by then, and a
fork may inherit what one of them holds. This one runs in a thread.
"""

from __future__ import annotations

import asyncio
import os
import threading
import traceback
from typing import Any

import zmq
from ipyparallel.controller import heartmonitor
from ipyparallel.util import bind, connect, set_hwm
from zmq.eventloop.zmqstream import ZMQStream

SUBSCRIBES = b"\x01"  # how the message begins by which a heart begins to listen


class Monitor(heartmonitor.HeartMonitor):
    """A heart monitor that greets new hearts."""

    def start(self) -> None:
        """Begin to ping all hearts."""
        super().start()
        self.ping_stream.on_recv(self.greet)

    def greet(self, message: list[bytes]) -> None:
        """Ping at once, for a heart that has just begun to listen."""
        if message[0].startswith(SUBSCRIBES):
            self.ping_stream.send(str(self.lifetime).encode("ascii"))
            self.ping_stream.flush()

    def handle_pong(self, message: list[bytes]) -> None:
        """Take in the answer of a heart; tell at once of one that is new."""
        super().handle_pong(message)
        if new := self.responses - self.hearts:
            self.handle_new_hearts(new)


class MonitorThread(threading.Thread):
    """Stands in for the process in which the controller runs a heart monitor."""

    def run(self) -> None:
        """Run what it was made for; without it the controller is of no use."""
        try:
            super().run()
        except BaseException:
            traceback.print_exc()
            os._exit(1)

    def terminate(self) -> None:
        """Do nothing: it ends with the controller."""


def start_heartmonitor(
    ping_url: str,
    pong_url: str,
    monitor_url: str,
    log_level: int = 0,
    curve_publickey: bytes | None = None,
    curve_secretkey: bytes | None = None,
    **settings: Any,
) -> None:
    """Stand in for ipyparallel's function of this name; return never.

    log_level: not used here: it logs where the controller does.
    """
    keys = {"curve_publickey": curve_publickey, "curve_secretkey": curve_secretkey}
    context = zmq.Context()
    ping, pong = context.socket(zmq.XPUB), context.socket(zmq.ROUTER)
    ping.setsockopt(zmq.XPUB_VERBOSE, 1)  # tells of every heart, not only of the first
    set_hwm(pong, 0)
    bind(ping, ping_url, **keys)
    bind(pong, pong_url, **keys)
    told = context.socket(zmq.XPUB)
    connect(told, monitor_url, **keys, curve_serverkey=curve_publickey)

    async def start() -> None:  # streams belong to the loop that runs
        streams = zip(("ping", "pong", "monitor"), (ping, pong, told), strict=True)
        made = {f"{name}_stream": ZMQStream(socket) for name, socket in streams}
        Monitor(**made, **settings).start()

    loop = asyncio.new_event_loop()
    loop.run_until_complete(start())
    loop.run_forever()
