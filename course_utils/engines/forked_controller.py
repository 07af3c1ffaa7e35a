"""The controller of a forked world, as the fork parent runs it."""

from __future__ import annotations

import os
import socket
from types import SimpleNamespace

from course_utils.engines.leash import die_with_parent
from course_utils.engines.without_nanny import hear_of_endings

LOOPBACK = "127.0.0.1"


def controller_main(endings: int, argv: list[str]) -> None:
    """Run the controller, whose heart monitor, a fork of it, ends with it.

    endings: pipe in which the names of engines come that have ended.

    ipyparallel looks for free ports, lets them go, and binds them a moment later:
    by then another process may have one, and the controller would not be heard.
    """
    import ipyparallel.controller.app

    held: list[socket.socket] = []

    def reserved(count: int) -> list[int]:
        """Hold free ports: bound, but not listening, as zmq will in a moment."""
        for _ in range(count):
            holder = socket.socket()
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            holder.bind((LOOPBACK, 0))
            held.append(holder)
        return [holder.getsockname()[1] for holder in held[-count:]]

    ipyparallel.util.select_random_ports = reserved
    name_sockets_as_clients_do()
    be_quick()
    hear_of_endings(endings)
    controller = os.getpid()
    os.register_at_fork(after_in_child=lambda: die_with_parent(controller))
    ipyparallel.controller.app.main(argv=argv)


def be_quick() -> None:
    """Let nobody wait for the controller longer than it takes.

    ipyparallel's sleeps for a quarter of a second, for a database that there is not,
    and greets engines late; its files are there before they are whole.
    """
    from ipyparallel.controller import app

    from course_utils.engines.greeting import start_heartmonitor

    app.time = SimpleNamespace(sleep=lambda seconds: None)
    app.start_heartmonitor = start_heartmonitor
    write = app.IPController.save_connection_dict

    def save_connection_dict(self, name: str, connection: dict) -> None:
        write(self, f"{name}.new", connection)
        path = os.path.join(self.profile_dir.security_dir, name)
        os.replace(f"{path}.new", path)

    app.IPController.save_connection_dict = save_connection_dict


def name_sockets_as_clients_do() -> None:
    """Let the controller name a socket in a folder as ipyparallel's clients do.

    They write ":" before its number, where the controller writes "-".
    """
    from ipyparallel.controller.app import IPController

    url = IPController.construct_url

    def construct_url(self, *args, **kwargs) -> str:
        found = url(self, *args, **kwargs)
        path, _, number = found.rpartition("-")
        return f"{path}:{number}" if found.startswith("ipc:") else found

    IPController.construct_url = construct_url
