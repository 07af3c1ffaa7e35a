"""Hosts inside this machine: networks of their own, joined by a switch and cables.

A process that enters a host has its network and host name; all else is the machine's.
Nothing names these namespaces: they end with the last process in them and the last
descriptor of them. Without root, they belong to a user namespace. Linux only.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import socket
import sys
from collections.abc import Callable

from course_utils.engines import netlink
from course_utils.engines.hosts import INTERFACE, SWITCH, address_in, host_in

NEW_UTS, NEW_USER, NEW_NET = 0x04000000, 0x10000000, 0x40000000  # setns(2)
BRIDGE = "switch"


class Refused(RuntimeError):
    """This machine does not let the user make namespaces."""


class Network:
    """Hosts that children of this process enter.

    hosts: how many; rate: bytes a second that a cable carries, 0 for as many as it
    can. Raises Refused, with what the kernel says.
    """

    def __init__(self, hosts: int, rate: int) -> None:
        here, there = socket.socketpair()
        with here, there:
            pid = os.fork()  # a process that enters a user namespace cannot leave it
            if pid == 0:
                _make(there, hosts, rate)
            there.close()
            said, found, *_ = socket.recv_fds(here, 4096, 2 + 2 * hosts)
            os.waitpid(pid, 0)
        reply = json.loads(said or b'{"error": "it ended"}')
        if "error" in reply:
            raise Refused(reply["error"])
        self.user = found.pop(0) if reply["user"] else None
        self.switch, *self.hosts = found

    def enter(self, host: int | None) -> None:
        """Enter a host, counted from 0, or the network of the switch: None."""
        if self.user is not None:
            _enter(self.user, NEW_USER)
        if host is None:
            _enter(self.switch, NEW_NET)
        else:
            _enter(self.hosts[2 * host], NEW_NET)
            _enter(self.hosts[2 * host + 1], NEW_UTS)
        self.close()

    def plug(self, host: int, on: bool) -> None:
        """Plug the cable of a host into the switch, or pull it out."""
        pid = os.fork()
        if pid == 0:
            self.enter(None)
            _exit_after(lambda: netlink.turn(_cable(host), on))
        os.waitpid(pid, 0)

    def close(self) -> None:
        """Let go of the namespaces: they end with the processes in them."""
        for fd in (self.user, self.switch, *self.hosts):
            if fd is not None:
                os.close(fd)


def lacking() -> str:
    """Return why hosts cannot be made inside this machine; "" if they can."""
    if sys.platform != "linux":
        return "hosts inside a machine need Linux"
    try:
        Network(1, 0).close()
    except Refused as error:
        return str(error)
    return ""


def _make(there: socket.socket, hosts: int, rate: int) -> None:
    """Make the hosts, and send descriptors of them; exit."""
    try:
        user = _gain_rights()
        found = [] if user is None else [user]
        found += _build(hosts, rate)
        said = json.dumps({"user": user is not None}).encode()
        socket.send_fds(there, [said], found)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        there.sendall(json.dumps({"error": f"{where}{error.strerror}"}).encode())
    finally:
        os._exit(0)


def _exit_after(action: Callable[[], None]) -> None:
    code = 1
    try:
        action()
        code = 0
    finally:
        os._exit(code)


def _gain_rights() -> int | None:
    """Enter a new network; where only a user namespace allows that, return it."""
    try:
        _leave(NEW_NET)
        return None
    except PermissionError:
        user, group = os.geteuid(), os.getegid()
    _leave(NEW_USER)
    _write("setgroups", "deny")
    _write("uid_map", f"{user} {user} 1")
    _write("gid_map", f"{group} {group} 1")
    _leave(NEW_NET)
    return _descriptor("user")


def _build(hosts: int, rate: int) -> list[int]:
    """Make the switch in this network, and hosts; return descriptors of them all."""
    switch = _descriptor("net")
    netlink.turn("lo")
    netlink.add_switch(BRIDGE)
    netlink.add_address(BRIDGE, SWITCH)
    found = [switch]
    for host in range(hosts):
        _leave(NEW_NET | NEW_UTS)
        socket.sethostname(host_in(host))
        network = _descriptor("net")
        found += [network, _descriptor("uts")]
        netlink.turn("lo")
        _enter(switch, NEW_NET)
        netlink.add_cable(_cable(host), BRIDGE, INTERFACE, network)
        if rate:
            netlink.shape(_cable(host), rate)
        _enter(network, NEW_NET)
        netlink.add_address(INTERFACE, address_in(host))
        netlink.turn(INTERFACE)
        if rate:
            netlink.shape(INTERFACE, rate)
        _enter(switch, NEW_NET)
    return found


def _cable(host: int) -> str:
    """Name the end of a host's cable at the switch."""
    return f"port{host}"


def _descriptor(kind: str) -> int:
    return os.open(f"/proc/self/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)


def _write(name: str, text: str) -> None:
    with open(f"/proc/self/{name}", "w") as file:
        file.write(text)


def _leave(kinds: int) -> None:
    _call("unshare", kinds)


def _enter(namespace: int, kind: int) -> None:
    _call("setns", namespace, kind)


def _call(name: str, *arguments: int) -> None:
    """Make a system call; raise OSError if the kernel refuses."""
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments):
        code = ctypes.get_errno() or errno.EPERM
        raise OSError(code, f"{name}: {os.strerror(code)}")
