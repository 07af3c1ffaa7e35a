"""Which hosts a world is to run on, and the address at which they reach this one."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterable

from course_utils.text import rate_of

SOMEWHERE = "192.0.2.1"  # reserved for documentation; nothing is sent there
EXAMPLE = 'launch(4, hosts=["a:2", "b:2"])'
MOST = 100  # hosts inside this machine
INTERFACE = "eth0"  # of such a host
SWITCH = "10.79.0.254"  # address of the notebook's side, as such hosts see it
LINKS = (125_000, 4_000_000_000)  # bytes a second: 1mbit, 32gbit


def read_hosts(hosts: Iterable[str], world_size: int) -> dict[str, int]:
    """Return how many ranks run on each host, in the order given.

    hosts: names, each with its number of ranks, as in "a:2"; without one it has 1.
    Raises ValueError if they have not room for `world_size` ranks.
    """
    room: dict[str, int] = {}
    for entry in [hosts] if isinstance(hosts, str) else hosts:
        name, _, count = str(entry).partition(":")
        if not name or name.startswith("-") or (count and not count.isdigit()):
            raise ValueError(
                f"hosts: expected names with a number of ranks each, as in {EXAMPLE}, "
                f"got {entry!r}"
            )
        room[name] = room.get(name, 0) + int(count or 1)
    return fill(room, world_size)


def fill(room: dict[str, int], world_size: int) -> dict[str, int]:
    """Return how many of `world_size` ranks run on each host, the first ones filled."""
    total = sum(room.values())
    if total < world_size:
        raise ValueError(
            f"hosts: {', '.join(f'{h}:{n}' for h, n in room.items())} have room for "
            f"{total} rank{'s' if total != 1 else ''}, not for {world_size}"
        )
    left, used = world_size, {}
    for host, count in room.items():
        used[host] = min(count, left)
        left -= used[host]
    return {host: count for host, count in used.items() if count}


def host_in(place: int) -> str:
    """Return the name of a host inside this machine, counted from 0."""
    return f"node{place}"


def address_in(place: int) -> str:
    """Return the address of a host inside this machine."""
    return f"10.79.0.{place + 1}"


def share_out(hosts: int, world_size: int) -> dict[str, int]:
    """Return how many ranks run on each of so many hosts inside this machine.

    Raises ValueError if there are more hosts than ranks, or less than one.
    """
    if not 1 <= hosts <= min(world_size, MOST):
        raise ValueError(
            f"hosts: expected from 1 to {min(world_size, MOST)} hosts for {world_size} "
            f"rank{'s' if world_size > 1 else ''}, got {hosts}"
        )
    each, more = divmod(world_size, hosts)
    return {host_in(place): each + (place < more) for place in range(hosts)}


def read_link(link: str | None) -> int:
    """Read the rate of a cable, as in "400mbit"; return bytes a second, 0 for None."""
    if link is None:
        return 0
    try:
        rate = round(rate_of(str(link).removesuffix("/s") + "/s", "link"))
    except ValueError:
        rate = 0
    if not LINKS[0] <= rate <= LINKS[1]:
        raise ValueError(
            'link: expected a rate from "1mbit" to "32gbit", as in "400mbit", '
            f"got {link!r}"
        )
    return rate


def address_towards(host: str) -> str:
    """Return the address of this machine on the way to a host; "" if unknown.

    host: a name, as ssh or the resolver knows it.
    """
    for name in (ssh_name(host), host):
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                probe.connect((name, 9))  # sends nothing; asks the routing table
                return probe.getsockname()[0]
        except OSError:
            continue
    return ""


def ssh_name(alias: str) -> str:
    """Return the host name that ssh's configuration has for an alias."""
    try:
        told = subprocess.run(
            ["ssh", "-G", alias], capture_output=True, text=True, timeout=5
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return alias
    found = [line.split()[1] for line in told.splitlines() if line[:9] == "hostname "]
    return found[0] if found else alias


def own_address(hosts: Iterable[str]) -> str:
    """Return the address at which all `hosts` reach this machine.

    "*" where they come from several networks, so that no one address will do.
    """
    found = {address for host in hosts if (address := address_towards(host))}
    outer = {address for address in found if not address.startswith("127.")}
    if len(outer) > 1:
        return "*"
    return next(iter(outer or found), "") or public_address()


def interface_of(address: str) -> str:
    """Return the name of this machine's network interface with an address; or ""."""
    import psutil  # doctor says so where it is missing

    for name, addresses in psutil.net_if_addrs().items():
        if any(a.address == address for a in addresses):
            return name
    return ""


def public_address() -> str:
    """Return the address that this machine has in the network it is in."""
    import psutil

    address = address_towards(SOMEWHERE)
    if address and not address.startswith("127."):
        return address
    for addresses in psutil.net_if_addrs().values():
        for a in addresses:
            if a.family == socket.AF_INET and not a.address.startswith("127."):
                return a.address
    return "127.0.0.1"
