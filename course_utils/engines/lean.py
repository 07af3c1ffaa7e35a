"""Let forked engines touch few of the pages that they share.

A page that an engine writes to, be it a reference count, becomes a copy of its own: it
costs memory and time for each rank.
"""

from __future__ import annotations

import sys
from typing import Any


class WithoutModules:
    """`sys`, as a kernel reads it, but for the modules.

    A kernel lists the files of them all, some 2,500, for a debugger that no rank has.
    """

    modules: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(sys, name)


def touch_little() -> None:
    """Let kernels and applications of this process and its forks touch few pages."""
    from ipykernel import ipkernel
    from traitlets.config import Application

    configure = Application._configure_logging

    def configure_changed(self) -> None:
        """Configure the log, which is asked for nine times, where that differs."""
        wanted = (self.get_default_logging_config(), self.logging_config)
        if wanted != getattr(self, "_configured", None):
            configure(self)
            self._configured = wanted

    ipkernel.sys = WithoutModules()
    Application._configure_logging = configure_changed
