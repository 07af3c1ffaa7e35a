"""What leads to a host over ssh: the settings of ipyparallel's launcher, and ours."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ipyparallel.cluster.launcher import SSHEngineSetLauncher

OPTIONS = (  # the first of two values counts: those of a profile stand before these
    ("BatchMode", "yes"),  # nobody is there to type a password
    ("ConnectTimeout", "10"),
    ("ServerAliveInterval", "2"),  # ssh ends 6 to 8 s after the host has gone
    ("ServerAliveCountMax", "3"),
    ("ControlPath", "none"),  # a shared connection would not end with this one
)


def rooms(settings: SSHEngineSetLauncher) -> dict[str, int]:
    """Return how many ranks run on each host that a profile lists."""
    return {
        host: given.get("n", 1) if isinstance(given, dict) else given
        for host, given in settings.engines.items()
    }


def own(name: str, settings: SSHEngineSetLauncher) -> dict:
    """Return what a profile sets for one host alone."""
    given = settings.engines.get(name)
    return given if isinstance(given, dict) else {}


def command(name: str, settings: SSHEngineSetLauncher) -> list[str]:
    """Return the ssh command that leads to a host.

    name: as the profile has it: "host", "user@host" or "host:port".
    """
    user, host, port = parts(name)
    user = user or own(name, settings).get("user", settings.user)
    given = own(name, settings).get("ssh_args", settings.ssh_args)
    words = [*settings.ssh_cmd, *given, *(["-p", port] if port else []), "-T"]
    for option, value in OPTIONS:
        words += ["-o", f"{option}={value}"]
    return [*words, f"{user}@{host}" if user else host]


def python(name: str, settings: SSHEngineSetLauncher) -> str:
    """Return the path of Python on a host: this one's, if a profile sets no other.

    The hosts of a cluster mostly share their disks.
    """
    found = own(name, settings).get("remote_python", settings.remote_python)
    default = settings.traits()["remote_python"].default_value
    return sys.executable if found == default else found


def parts(name: str) -> tuple[str, str, str]:
    """Return user, host and port of "user@host:port"; "" for what is not there."""
    user, _, place = name.rpartition("@")
    host, _, port = place.partition(":")
    return user, host, port
