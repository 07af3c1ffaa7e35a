"""What ipyparallel's nanny does for an engine, without a process for each.

A nanny relays signals to its engine, and tells the controller when the engine has
ended. Forked engines have a parent that does both: it sends the signals, and hears of
an end before anybody else; it tells the controller in a pipe.
"""

from __future__ import annotations

import os
import signal
from typing import Any

NO_NANNY = "--IPEngine.enable_nanny=False"


def settings(name: str) -> list[str]:
    """Return an engine's settings; name: by which the controller is told of its end.

    No other engine of the world, before or after, may have the name.
    """
    return [NO_NANNY, f"--Session.session={name}"]


def heed_signals() -> None:
    """Let the engines of this process and its forks answer `Client.send_signal`."""
    from ipyparallel.engine.kernel import IPythonParallelKernel
    from ipyparallel.error import wrap_exception

    def signal_request(self, stream, ident, parent: dict[str, Any]) -> None:
        wanted, content = parent["content"]["sig"], {"status": "ok"}
        try:
            named = isinstance(wanted, str)
            number = signal.Signals[wanted] if named else signal.Signals(wanted)
        except (KeyError, ValueError):  # there is no such signal
            number, content = 0, wrap_exception()
        self.session.send(stream, "signal_reply", content, parent=parent, ident=ident)
        os.kill(os.getpid(), number)  # once it is answered: it may be the end

    IPythonParallelKernel.signal_request = signal_request
    IPythonParallelKernel.control_msg_types += ["signal_request"]


def hear_of_endings(pipe: int) -> None:
    """Let the controller of this process forget engines whose names come in a pipe."""
    from ipyparallel.controller.app import IPController

    init_hub = IPController.init_hub

    def init_hub_and_listen(self) -> None:
        init_hub(self)
        pending = b""

        def hear(*_) -> None:
            nonlocal pending
            chunk = os.read(pipe, 4096)
            if not chunk:  # nobody writes any more: the world ends
                self.loop.remove_handler(pipe)
            *names, pending = (pending + chunk).split(b"\n")
            for name in names:
                forget(self.hub, name)

        self.loop.add_handler(pipe, hear, self.loop.READ)

    IPController.init_hub = init_hub_and_listen


def forget(hub: Any, name: bytes) -> None:
    """Let a hub forget an engine, whether it has registered or is about to."""
    known = hub.by_ident.get(name)
    if known is None and name in hub.incoming_registrations:
        known = hub.incoming_registrations[name].id
    if known is not None:
        hub.unregister_engine(name, {"content": {"id": known}})
