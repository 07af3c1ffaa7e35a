"""The controller's heartbeat, as the processes of a world hear it from afar.

A process on another machine is not told that the notebook's kernel has ended, or that
a cable was pulled. It hears the controller, which ends with the kernel, fall silent.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from contextlib import suppress
from typing import Any

CONNECTION = "IPP_CONNECTION_INFO"  # variable: where the controller is, and its key
SILENCE = 15.0  # seconds without a heartbeat after which the world has ended
PAUSE = 1.0  # seconds between two listenings


def wait_for_silence(connection: dict[str, Any], limit: float = SILENCE) -> None:
    """Return once the controller has not been heard for `limit` seconds.

    connection: what ipyparallel tells an engine about its controller.
    """
    import zmq
    from ipyparallel.util import disambiguate_ip_address

    protocol, _, address = connection["interface"].partition("://")
    address = disambiguate_ip_address(address, connection.get("location"))
    heard = zmq.Context().socket(zmq.SUB)
    heard.setsockopt(zmq.CONFLATE, 1)  # only the last beat is kept
    if connection.get("curve_serverkey"):
        public, secret = zmq.curve_keypair()
        heard.setsockopt(zmq.CURVE_SERVERKEY, connection["curve_serverkey"].encode())
        heard.setsockopt(zmq.CURVE_PUBLICKEY, public)
        heard.setsockopt(zmq.CURVE_SECRETKEY, secret)
    heard.setsockopt(zmq.SUBSCRIBE, b"")
    heard.connect(f"{protocol}://{address}:{connection['hb_ping']}")
    while heard.poll(1000 * limit):
        heard.recv()
        time.sleep(PAUSE)


def end_parent(argv: list[str]) -> None:
    """End the process above this one when the controller falls silent."""
    wait_for_silence(json.loads(os.environ[CONNECTION]))
    os.kill(os.getppid(), signal.SIGTERM)


def end_with_controller(limit: float = SILENCE) -> None:
    """Start a thread that kills this process when the controller falls silent.

    Silent for `limit` seconds. What else is in its process group ends, too, and what
    this process has started (an engine's nanny is in a session of its own, and may wait
    for ever to send its last message).
    """
    import psutil

    connection = json.loads(os.environ[CONNECTION])

    def watch() -> None:
        wait_for_silence(connection, limit)
        for started in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                started.kill()
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, name="heartbeat", daemon=True).start()
