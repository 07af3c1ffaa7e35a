"""Nobody takes a port of the controller between its choice and its use."""

import socket
import sys

import pytest
import zmq
from ipyparallel import util

from course_utils.engines.ports import LOOPBACK, listen_at_once

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks are of Linux")
WAIT = 30_000  # ms


@pytest.fixture
def chosen(monkeypatch):
    """Return a port as the controller chooses one."""
    monkeypatch.setattr(zmq.Socket, "bind", zmq.Socket.bind)
    monkeypatch.setattr(util, "select_random_ports", None)
    listen_at_once()
    return util.select_random_ports(1)[0]


@pytest.fixture
def context():
    made = zmq.Context()
    yield made
    made.destroy(linger=0)


@pytest.mark.quick
def test_nobody_else_can_have_it(chosen):
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as zmq does
        with pytest.raises(OSError, match="in use"):
            other.bind((LOOPBACK, chosen))


@pytest.mark.quick
def test_what_is_sent_before_it_is_bound_arrives(chosen, context):
    address = f"tcp://{LOOPBACK}:{chosen}"
    with context.socket(zmq.DEALER) as engine, context.socket(zmq.ROUTER) as hub:
        engine.connect(address)
        engine.send(b"register")
        hub.bind(address)
        assert hub.poll(WAIT)
        name, words = hub.recv_multipart()
        assert words == b"register"
        hub.send_multipart([name, b"done"])
        assert engine.poll(WAIT)
        assert engine.recv() == b"done"


@pytest.mark.quick
def test_other_addresses_are_bound_as_ever(chosen, context):
    with context.socket(zmq.ROUTER) as one, context.socket(zmq.DEALER) as two:
        port = one.bind_to_random_port(f"tcp://{LOOPBACK}")
        assert port != chosen
        two.connect(f"tcp://{LOOPBACK}:{port}")
        two.send(b"hello")
        assert one.poll(WAIT)
