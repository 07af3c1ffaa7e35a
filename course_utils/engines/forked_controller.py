"""The controller of a forked world, as the fork parent runs it."""

from __future__ import annotations

import os
from types import SimpleNamespace

from course_utils.engines.ports import listen_at_once
from course_utils.engines.without_nanny import hear_of_endings


def controller_main(endings: int, argv: list[str]) -> None:
    """Run the controller, in one process.

    endings: pipe in which the names of engines come that have ended.
    """
    import ipyparallel.controller.app

    listen_at_once()
    name_sockets_as_clients_do()
    be_quick()
    hear_of_endings(endings)
    ipyparallel.controller.app.main(argv=argv)


def be_quick() -> None:
    """Let nobody wait for the controller longer than it takes.

    ipyparallel's sleeps for a quarter of a second, for a database that there is not,
    and greets engines late; its files are there before they are whole.
    """
    from ipyparallel.controller import app

    from course_utils.engines.greeting import MonitorThread, start_heartmonitor

    app.time = SimpleNamespace(sleep=lambda seconds: None)
    app.Process, app.start_heartmonitor = MonitorThread, start_heartmonitor
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
