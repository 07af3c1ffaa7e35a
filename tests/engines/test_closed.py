"""A world on one machine is closed: to the network, to other users, to other worlds."""

import json
import os
import socket
import stat
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import ipyparallel
import psutil
import pytest
import worlds

from course_utils import launch
from course_utils.world.ranks import Ranks

LOOPBACK = {"127.0.0.1", "::1"}
GATHER = """%%px
import os
import torch
from torch import distributed as dist

seen = []
for _ in range(20):
    marks = [torch.empty(1, dtype=torch.long) for _ in range(dist.get_world_size())]
    dist.all_gather(marks, torch.tensor([{mark}]))
    seen += [m.item() for m in marks]
set(seen) == {{{mark}}}
"""


@pytest.fixture(scope="module")
def before() -> list[psutil.Process]:
    """Return the processes below this one before the world started."""
    return worlds.family()


@pytest.fixture(scope="module")
def tmp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return the folder in which the world puts its own folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("tmp")))
        yield Path(tempfile.gettempdir())


@pytest.fixture(scope="module")
def world(before, tmp) -> Iterator[Ranks]:
    """Return a world that has used its process group."""
    with launch(3) as ranks:
        ranks.view.execute(GATHER.format(mark=1).removeprefix("%%px\n"))
        yield ranks


@pytest.fixture(scope="module")
def private(world, tmp) -> Path:
    """Return the private folder of the world."""
    [folder] = tmp.iterdir()
    return folder


@pytest.fixture(scope="module")
def processes(before, world) -> list[psutil.Process]:
    """Return every process of the world."""
    return [process for process in worlds.family() if process not in before]


def test_every_kind_of_process_is_looked_at(world, processes):
    pids = {process.pid for process in processes}
    assert pids >= set(world.run(os.getpid))
    assert len(pids) > len(world)  # the controller at least


def test_everything_listens_on_loopback_alone(processes):
    listening = [
        (process.pid, connection.laddr)
        for process in processes
        for connection in process.net_connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN
        or connection.type != socket.SOCK_STREAM
    ]
    assert len(listening) >= 3, "no socket found: is this test still looking right?"
    outside = [(pid, a) for pid, a in listening if not a or a.ip not in LOOPBACK]
    assert outside == []


def test_the_test_would_see_an_open_socket():
    with socket.create_server(("0.0.0.0", 0)) as server:
        found = psutil.Process().net_connections(kind="inet")
        port = server.getsockname()[1]
        assert ("0.0.0.0", port) in [tuple(c.laddr) for c in found]


def test_connections_stay_on_this_machine(processes):
    remote = {
        connection.raddr.ip
        for process in processes
        for connection in process.net_connections(kind="inet")
        if connection.raddr
    }
    assert remote and remote <= LOOPBACK


def test_folder_is_private(private):
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    assert private.stat().st_uid == os.getuid()
    keys = list(private.rglob("ipcontroller*.json"))
    assert len(keys) >= 2  # of the client and of the engines
    for path in keys:
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_command_lines_hold_no_secret(private, processes):
    """Other users can read them."""
    secrets = set()
    for path in private.rglob("*.json"):
        known = json.loads(path.read_text())
        secrets |= {v for k, v in known.items() if v and ("secret" in k or k == "key")}
    for process in processes:
        command = " ".join(process.cmdline())
        assert not [secret for secret in secrets if secret in command]


def test_curve_shuts_out_a_client_without_the_key(world, private, tmp_path):
    [known] = private.rglob("ipcontroller*client.json")
    connection = json.loads(known.read_text())
    assert connection["curve_serverkey"]
    for name in [name for name in connection if name.startswith("curve")]:
        del connection[name]
    (tmp_path / "client.json").write_text(json.dumps(connection))
    refused = threading.Event()

    def connect() -> None:
        try:
            ipyparallel.Client(str(tmp_path / "client.json"), timeout=3)
        except (TimeoutError, ipyparallel.TimeoutError, OSError):
            refused.set()

    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(worlds.LIMIT)
    assert refused.is_set()
    with ipyparallel.Client(str(known), timeout=60) as invited:  # the key opens
        assert len(invited.ids) == len(world)


def test_two_kernels_at_once_keep_their_worlds_apart(tmp_path):
    """Two notebooks start at the same moment; their groups initialise interleaved."""
    both = threading.Barrier(2)

    def work(number: int) -> list[str]:
        folder = tmp_path / str(number)
        folder.mkdir()
        said = []
        with worlds.notebook(folder) as book:
            book.good("from course_utils import launch")
            for init in (True, False):
                both.wait(worlds.LIMIT)
                said.append(book.good(f"ranks = launch(2, init={init})\nranks"))
                both.wait(worlds.LIMIT)
                if not init:  # by hand, over env://, at the same moment
                    book.good(
                        "%%px\nfrom torch import distributed as dist\n"
                        "dist.init_process_group('gloo')"
                    )
                said.append(book.good(GATHER.format(mark=number)))
            both.wait(worlds.LIMIT)
        return said

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(work, (1, 2)))
    assert (
        results
        == [
            [
                "2 ranks · gloo · cpu\n",
                "[ranks 0–1] True\n",
                "2 ranks · no process group · cpu\n",
                "[ranks 0–1] True\n",
            ]
        ]
        * 2
    )
