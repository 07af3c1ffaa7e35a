"""What a thread can say of the stack of another one."""

import ast
import linecache
import sys
import threading
import time
from types import SimpleNamespace

import pytest
import torch
from torch import distributed as dist

from course_utils.measure import network
from course_utils.stuck import connections, looking, stacks
from course_utils.text import is_cell

pytestmark = pytest.mark.unit


class Holder:
    """A frame that stands inside a call, with the source of a cell."""

    def __init__(self, source: str, **names) -> None:
        self.name = f"<ipython-input-{abs(hash(source))}>"
        lines = source.splitlines(keepends=True)
        linecache.cache[self.name] = (len(source), None, lines, self.name)
        self.entered, self.leave = threading.Event(), threading.Event()

        def hold(*_, **__):
            self.entered.set()
            self.leave.wait(10)

        self.names = {"hold": hold, **names}
        code = compile(source, self.name, "exec")
        self.thread = threading.Thread(target=exec, args=(code, self.names))

    def __enter__(self):
        self.thread.start()
        assert self.entered.wait(10)
        frames = stacks.stack(sys._current_frames()[self.thread.ident])
        self.cell = [f for f in frames if f.f_code.co_filename == self.name]
        return self

    def __exit__(self, *_):
        self.leave.set()
        self.thread.join(10)


@pytest.mark.parametrize(
    ("source", "function"),
    [
        ("hold()", "hold"),
        ("x = [hold() for _ in range(1)]", "hold"),
        ("x = 'é'; hold(1)", "hold"),
        ("y = max(\n    1,\n    0 if hold(\n        2,\n    ) else 3,\n)", "hold"),
    ],
)
def test_current_call(source, function):
    with Holder(source) as held:
        found = stacks.current_call(held.cell[-1])
    assert found is not None
    assert ast.unparse(found) == function


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        ("<ipython-input-1-abc>", True),
        ("/tmp/ipykernel_77/1234.py", True),
        ("/usr/lib/python3.11/threading.py", False),
        ("<string>", False),
    ],
)
def test_is_cell(name, cell):
    assert is_cell(name) is cell


def test_waits_only_for_works_and_stores():
    class Frame:
        f_locals = {
            "done": threading.Event(),
            "store": dist.HashStore(),
            "prefixed": dist.PrefixStore("a", dist.HashStore()),
            "get": dist.HashStore().get,
            "self": SimpleNamespace(store=dist.HashStore(), event=threading.Event()),
            "lookup": {}.get,
        }
        f_globals: dict = {}

    def called(text: str):
        return ast.parse(text, mode="eval").body

    assert stacks.waits(called("store.get"), Frame)
    assert stacks.waits(called("works[0].wait"), Frame)
    for text in ("prefixed.get", "get", "self.store.get", "self.store.multi_get"):
        assert stacks.waits(called(text), Frame), text
    assert stacks.waits(called("self.work.wait"), Frame), "of what is not known"
    for text in ("self.event.wait", "lookup", "self.table.get"):
        assert not stacks.waits(called(text), Frame), text
    assert not stacks.waits(called("done.wait"), Frame)
    assert not stacks.waits(called("nothing.wait"), Frame)
    assert not stacks.waits(called("store.set"), Frame)
    assert not stacks.waits(called("wait"), Frame)
    assert not stacks.waits(called("table[0].get"), Frame)


def test_stack_is_outermost_first():
    frames = stacks.stack(sys._getframe())
    assert frames[-1] is sys._getframe()
    assert frames[0].f_back is None


def test_arguments_without_a_frame():
    assert looking.arguments(None) == {"peers": {}, "group": None, "group_name": ""}


def test_arguments_of_a_call():
    def broadcast(tensor, src=None, group=None, group_src=None):
        return looking.arguments(sys._getframe())

    assert broadcast(torch.ones(1), src=2)["peers"] == {"src": 2}
    assert broadcast(torch.ones(1), group_src=1)["peers"] == {"group_src": 1}
    assert broadcast(torch.ones(1), src=True)["peers"] == {}


def test_no_group_means_no_sequences():
    assert looking.sequences() == {}
    assert looking.members(None) is None
    assert looking.group_name(None) == ""


def test_sockets_are_those_of_the_network():
    import socket

    before = network.sockets()
    with socket.socket() as one, socket.socket(socket.AF_UNIX) as other:
        found = network.sockets() - before
        assert one.fileno() in found
        assert other.fileno() not in found
    assert network.sockets() == before


def test_traffic_is_that_of_one_connection():
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname()) as one:
            other, _ = server.accept()
            with other:
                one.sendall(bytes(1000))
                other.sendall(bytes(30))
                for _ in range(1000):
                    if network.traffic(other.fileno()) == (30, 1000):
                        break
                    time.sleep(0.01)
                assert network.traffic(one.fileno()) == (1000, 30)
                assert network.traffic(other.fileno()) == (30, 1000)
                port = server.getsockname()[1]
                assert network.traffic(one.fileno(), port) == (0, 0)
                assert network.traffic(other.fileno(), port) == (0, 0)
                connections.shut_down(one.fileno())
                assert one.recv(100) == bytes(30) and one.recv(1) == b""
        assert network.traffic(server.fileno()) == (0, 0)
    assert network.traffic(1 << 20) == (0, 0)


def test_thread_that_is_joined():
    frames: list = []

    def outer(other: threading.Thread) -> None:
        other.join(10)

    stop = threading.Event()
    sleeper = threading.Thread(target=stop.wait, args=(10,))
    sleeper.start()
    joining = threading.Thread(target=outer, args=(sleeper,))
    joining.start()
    try:
        for _ in range(1000):
            frames = stacks.stack(sys._current_frames().get(joining.ident))
            if frames and stacks.joins(frames[-1]):
                break
        assert stacks.joins(frames[-1])
        assert not stacks.joins(sys._getframe())
    finally:
        stop.set()
        joining.join(10)
        sleeper.join(10)
