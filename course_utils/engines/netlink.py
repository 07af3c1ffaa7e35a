"""Network interfaces of the network that this process is in, made by netlink.

As `ip` and `tc` make them, which a machine may not have. Linux only.
Sources: rtnetlink(7), linux/if_link.h, linux/pkt_sched.h.
"""

from __future__ import annotations

import os
import socket
import struct

NEW_LINK, NEW_ADDRESS, NEW_QUEUE = 16, 20, 36  # kinds of messages
ERROR = 2  # the kind of a reply, also of one that says that all went well
REQUEST, ACKNOWLEDGE, CREATE = 0x1, 0x4, 0x600  # CREATE: and it must not exist
UP = 0x1  # flag of an interface
NAME, MASTER, LINK_INFO, NETWORK = 3, 10, 18, 28  # attributes of an interface
KIND, DATA, PEER = 1, 2, 1  # in LINK_INFO, and in the DATA of a pair
ROOT = 0xFFFFFFFF  # parent of the queue of an interface
ETHERNET = 1  # how the sizes of packets are counted
BURST = 0.33e-3  # seconds of bytes at once; more would let small messages pass freely
LEAST, MOST = 4096, 65536  # of these bytes: two packets, and what is sent in one piece
QUEUE = 0.05  # seconds that a byte waits at most before it is dropped


def add_switch(name: str) -> None:
    """Make a switch, to which cables are added."""
    _send(NEW_LINK, _interface(UP), {NAME: _text(name), LINK_INFO: _kind("bridge")})


def add_cable(name: str, switch: str, other: str, network: int) -> None:
    """Make a cable from a switch here to another network, a descriptor.

    name, other: of the interfaces at its two ends.
    """
    far = {NAME: _text(other), NETWORK: struct.pack("I", network)}
    near = {NAME: _text(name), MASTER: struct.pack("I", socket.if_nametoindex(switch))}
    pair = _kind("veth", {PEER: _interface() + _pack(far)})
    _send(NEW_LINK, _interface(UP), {**near, LINK_INFO: pair})


def turn(name: str, on: bool = True) -> None:
    """Switch an interface on or off."""
    body = _interface(UP if on else 0, socket.if_nametoindex(name))
    _send(NEW_LINK, body, create=False)


def add_address(name: str, address: str, prefix: int = 24) -> None:
    """Give an interface an address in a network of `prefix` bits."""
    index = socket.if_nametoindex(name)
    body = struct.pack("BBBBI", socket.AF_INET, prefix, 0, 0, index)
    packed = socket.inet_aton(address)
    _send(NEW_ADDRESS, body, {1: packed, 2: packed})


def shape(name: str, rate: int) -> None:
    """Let an interface send `rate` bytes a second, through a token bucket (tbf)."""
    body = struct.pack("BxxxiIII", 0, socket.if_nametoindex(name), 0, ROOT, 0)
    speed = struct.pack("BBHhHI", 0, ETHERNET, 0, 0, 0, rate)
    none = bytes(len(speed))  # no other rate at the peak
    burst = max(LEAST, min(round(BURST * rate), MOST))
    most = struct.pack("III", round(QUEUE * rate) + burst, 0, 0)
    bucket = {1: speed + none + most, 6: struct.pack("I", burst)}
    _send(NEW_QUEUE, body, {1: _text("tbf"), 2: _pack(bucket)})


def _interface(flags: int = 0, index: int = 0) -> bytes:
    return struct.pack("BxHiII", 0, 0, index, flags, UP)


def _kind(kind: str, data: dict[int, bytes] | None = None) -> bytes:
    return _pack({KIND: _text(kind), **({DATA: _pack(data)} if data else {})})


def _text(value: str) -> bytes:
    return value.encode() + b"\0"


def _pack(attributes: dict[int, bytes]) -> bytes:
    """Write attributes, each with its length and kind, padded to four bytes."""
    return b"".join(
        struct.pack("HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)
        for kind, value in attributes.items()
    )


def _send(
    kind: int,
    body: bytes,
    attributes: dict[int, bytes] | None = None,
    create: bool = True,
) -> None:
    """Send a request to the kernel; raise OSError if it refuses."""
    content = body + _pack(attributes or {})
    flags = REQUEST | ACKNOWLEDGE | (CREATE if create else 0)
    header = struct.pack("IHHII", 16 + len(content), kind, flags, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as kernel:
        kernel.sendall(header + content)
        reply = kernel.recv(65536)
    code = struct.unpack_from("i", reply, 16)[0]
    if struct.unpack_from("H", reply, 4)[0] == ERROR and code:
        raise OSError(-code, os.strerror(-code))
