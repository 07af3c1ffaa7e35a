"""New engines are heard at once, and only once they are connected."""

import subprocess
import sys
import threading
import time

import psutil
import zmq
from ipyparallel.controller import heartmonitor

from course_utils.engines import connecting, greeting, starting
from course_utils.engines.client import RankClient
from course_utils.world import start

NEVER = 3_600_000  # ms between two pings
LIMIT = 20.0  # seconds for what takes milliseconds
FAILS = """
import time
from course_utils.engines.greeting import MonitorThread
MonitorThread(target=lambda: 1 / 0).start()
time.sleep(600)
"""


def test_a_heart_is_heard_long_before_the_next_ping(tmp_path):
    ping, pong, tell = [f"ipc://{tmp_path}/{name}" for name in ("ping", "pong", "tell")]
    told = zmq.Context().socket(zmq.SUB)
    told.setsockopt(zmq.SUBSCRIBE, b"")
    told.bind(tell)
    settings = {"ping_url": ping, "pong_url": pong, "monitor_url": tell}
    threading.Thread(
        target=greeting.start_heartmonitor,
        kwargs={**settings, "period": NEVER},
        daemon=True,
    ).start()
    for name in (b"one", b"two"):
        heartmonitor.Heart(ping, pong, heart_id=name).start()
    said, deadline = b"", time.monotonic() + LIMIT
    while not (b'"one"' in said and b'"two"' in said):
        assert time.monotonic() < deadline, said
        if told.poll(100):
            said += b"".join(told.recv_multipart())


def test_the_controller_is_one_process(ranks):
    """A fork of it might inherit a lock that one of its threads holds."""
    assert psutil.Process(ranks.cluster.controller).children() == []


def test_without_its_heart_monitor_the_controller_ends():
    done = subprocess.run(
        [sys.executable, "-c", FAILS], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr


def test_an_engine_waits_for_its_connections(tmp_path):
    context = zmq.Context()
    made, connections = context.socket(zmq.DEALER), connecting.Connections()
    urls = [f"ipc://{tmp_path}/{name}" for name in ("first", "second")]
    for url in urls:
        connections.add(made)
        made.connect(url)
    waited = threading.Thread(target=connections.wait, args=(LIMIT,), daemon=True)
    waited.start()
    listening = [context.socket(zmq.ROUTER), context.socket(zmq.ROUTER)]
    listening[0].bind(urls[0])
    waited.join(0.3)
    assert waited.is_alive()  # one of two does not stand yet
    listening[1].bind(urls[1])
    waited.join(LIMIT / 2)
    assert not waited.is_alive()
    context.destroy(linger=0)


def test_an_engine_does_not_wait_for_ever(tmp_path):
    context = zmq.Context()
    made, connections = context.socket(zmq.DEALER), connecting.Connections()
    connections.add(made)
    made.connect(f"ipc://{tmp_path}/nobody")
    connections.wait(0.1)
    context.destroy(linger=0)


def test_a_client_that_was_not_told_of_engines_asks(monkeypatch):
    """As one that connects at the moment when they register."""
    asked = []
    ask = RankClient.ask_for_engines
    monkeypatch.setattr(RankClient, "_register_engine", lambda self, message: None)
    monkeypatch.setattr(starting, "ASKED", 5)
    monkeypatch.setattr(
        RankClient, "ask_for_engines", lambda self: (asked.append(self), ask(self))
    )
    with start.launch(2) as ranks:
        assert len(ranks) == 2
    assert asked
