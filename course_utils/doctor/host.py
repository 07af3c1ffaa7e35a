"""What the machine must have: Python, memory, fork, loopback, shared memory.

What may end the process that tries it is tried in a process of its own.
"""

from __future__ import annotations

import platform
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

from course_utils.doctor.examination import Ill
from course_utils.engines import LOOPBACK, lacking, machine
from course_utils.text import show_bytes

PYTHON = (3, 11)
RANKS = 4  # of most lessons
PATIENCE = 10.0  # seconds for what takes a fraction of one
SHARED = 16 * 2**20  # bytes
SHM = Path("/dev/shm")
FORK = """
import os, sys
pid = os.fork()
if pid == 0:
    os._exit(7)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 7)
"""
SHARE = f"""
from multiprocessing.shared_memory import SharedMemory
block = SharedMemory(create=True, size={SHARED})
try:
    block.buf[:] = bytes([1]) * {SHARED}
finally:
    block.close()
    block.unlink()
"""


def python() -> str:
    """Look at the version of Python."""
    version = platform.python_version()
    if sys.version_info < PYTHON:
        least = ".".join(map(str, PYTHON))
        raise Ill(
            f"{version}, and {least} is the least",
            "make venv PYTHON=python3.12, with a Python that is new enough",
        )
    return f"{version}, {platform.system()} {platform.machine()}"


def memory() -> str:
    """Look whether the ranks of a lesson fit into the memory that is free."""
    try:
        most = machine.most_ranks(machine.can_fork())
    except ImportError as error:
        raise Ill(
            f"cannot be read: {error}", "install the packages of the course"
        ) from None
    free = show_bytes(machine.available_memory())
    if most < RANKS:
        raise Ill(
            f"{free} available: room for {most} ranks, and the lessons start {RANKS}",
            "close what else runs; in a container or on a hub, ask for 1.5 GiB or more",
        )
    return f"{free} available, room for {RANKS} ranks and {most - RANKS} more"


def fork() -> str:
    """Fork a process, where ranks are forked."""
    if not machine.can_fork():
        return f"not on {platform.system()}: ranks are ordinary processes, slower"
    came = tried(FORK)
    if came:
        raise Ill(
            f"no process can be forked: {came}",
            "end other processes; look at `ulimit -u` and the container's pids limit",
        )
    return "works"


def hosts() -> str:
    """Look whether hosts can be made inside this machine: well, too, if not."""
    if why := lacking():
        return f"none can be made inside this machine ({why}); lesson 13 alone has some"
    return "can be made inside this machine, for lesson 13"


def loopback() -> str:
    """Listen on the loopback interface, connect to it, and send a byte."""
    try:
        with socket.create_server((LOOPBACK, 0)) as server:
            server.settimeout(PATIENCE)
            with socket.create_connection(server.getsockname(), PATIENCE) as near:
                near.sendall(b"x")
                far, _ = server.accept()
                with far:
                    far.settimeout(PATIENCE)
                    far.recv(1)
    except OSError as error:
        raise Ill(
            f"{LOOPBACK} cannot be reached: {error.strerror or error}",
            "bring the interface up (ip link set lo up), and let the firewall or VPN "
            "leave it alone",
        ) from None
    return f"{LOOPBACK} listens and answers"


def shared_memory() -> str:
    """Write to a block of shared memory."""
    room = f", {show_bytes(shutil.disk_usage(SHM).free)} free" if SHM.exists() else ""
    came = tried(SHARE)
    if came:
        raise Ill(
            f"{show_bytes(SHARED)} cannot be written: {came}{room}",
            f"free what lies in {SHM}; start a container with --shm-size=256m",
        )
    return f"{show_bytes(SHARED)} written{room}"


def tried(code: str) -> str:
    """Run code in another Python; return what went wrong, "" for nothing."""
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", code],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
    except subprocess.TimeoutExpired:
        return f"it takes more than {PATIENCE:.0f} s"
    except OSError as error:
        return error.strerror or str(error)
    if done.returncode == 0:
        return ""
    if done.returncode < 0:
        return f"the process was ended by {signal.Signals(-done.returncode).name}"
    words = done.stderr.strip().splitlines()
    return words[-1] if words else f"exit status {done.returncode}"
