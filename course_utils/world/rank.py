"""What `launch` installs on an engine to make it a rank.

Everything here runs in the engine's process: the environment variables that
torchrun would set, the port kept for rendezvous by hand, what interrupts and ends
it, and the watch.
"""

from __future__ import annotations

import faulthandler
import os
import random
import signal
import socket
import sys
import warnings
from importlib import import_module
from types import FrameType

from IPython import get_ipython

from course_utils.stuck import REQUEST, Watch
from course_utils.world.cell_lines import (
    as_in_editor,
    error_block,
    short_warning,
)
from course_utils.world.parcel import opened, pack, standing_in

LOG = "COURSE_UTILS_LOG"  # variable that names the file for a rank's last words
LEFT_OVER = ("TORCHELASTIC_", "GROUP_", "ROLE_")  # variables of torchrun
CALLED = ("_called", "_given")  # variables of a rank while it runs a function
CALL = compile("{}(*{})".format(*CALLED), "<call>", "eval")
RUNNERS = ("run_code", "do_apply")  # of IPython and ipyparallel: they execute code


def environment(
    rank: int,
    world_size: int,
    local_rank: int,
    local_world_size: int,
    master: tuple[str, int],
) -> dict[str, str]:
    """Return the environment variables that torchrun sets for a rank.

    master: address and port of the rendezvous.
    Source: https://docs.pytorch.org/docs/stable/elastic/run.html
    """
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(local_rank),
        "WORLD_SIZE": str(world_size),
        "LOCAL_WORLD_SIZE": str(local_world_size),
        "MASTER_ADDR": master[0],
        "MASTER_PORT": str(master[1]),
    }


def become_rank(
    variables: dict[str, str],
    guard: bool,
    address: str,
    leash: int,
    client: dict[str, list[str]],
) -> int:
    """Turn this engine into a rank, or give it another one; return its pid.

    variables: what `environment` returned for this rank.
    guard: compare every collective across the ranks before it runs.
    address: of the network interface that collectives are to use.
    leash: pid of the process with which this one ends; 0 for none.
    client: ``sys.argv`` and ``sys.path`` of the script or notebook.
    """
    forget_torchrun()
    os.environ.update(variables)
    choose_interface(address)
    if guard:
        call("guard:install")
    if REQUEST not in get_ipython().kernel.control_handlers:
        prepare(leash)
        as_in_client(client["argv"], client["path"])
    return os.getpid()


def forget_torchrun() -> None:
    """Drop what another launcher left in the environment.

    With TORCHELASTIC_USE_AGENT_STORE, say, rank 0 waits for a store of torchrun.
    """
    for name in list(os.environ):
        if name.startswith(LEFT_OVER):
            del os.environ[name]


def choose_interface(address: str) -> None:
    """Let gloo and nccl use the network interface that has `address`.

    On one machine nothing may listen elsewhere, whatever the environment says.
    """
    own = interface(address)
    for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        if address.startswith("127."):
            os.environ[name] = own
        else:
            os.environ.setdefault(name, own)


def as_in_client(argv: list[str], path: list[str]) -> None:
    """Make this process what torchrun would have started from the client's script.

    Its arguments, its modules, and random numbers that differ from rank to rank:
    those of forked processes would all be the same.
    """
    sys.argv[:] = argv
    sys.path[:] = [*path, *(entry for entry in sys.path if entry not in path)]
    random.seed()
    if "torch" in sys.modules:
        sys.modules["torch"].seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()


def prepare(leash: int) -> None:
    """Install, once, what every rank has: watch, short tracebacks, last words.

    leash: pid of the process with which this one ends; 0 for none.
    """
    if leash:
        from course_utils.engines import follow

        follow(leash)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    interrupt_only_code()
    if os.environ.get(LOG):
        faulthandler.enable(open(os.environ[LOG], "a"))
        stderr_to_log()
    shell = get_ipython()
    shell.kernel._publish_execute_input = lambda *_, **__: None  # nobody reads it
    shell.history_manager.enabled = False  # a database that nobody reads
    shell.InteractiveTB.structured_traceback = error_block
    shell.InteractiveTB.get_exception_only = error_block
    shell.SyntaxTB.structured_traceback = error_block
    shell.ask_exit = refuse_to_exit
    shell.transform_cell = as_in_editor(shell.transform_cell)
    warnings.filterwarnings("ignore", message="To exit: use")
    warnings.formatwarning = short_warning(warnings.formatwarning)
    Watch().install()


def interrupt_only_code() -> None:
    """Let SIGINT interrupt the code of a cell or call, and nothing else.

    The kernel lets it interrupt its own work before and after, too: a cell that
    ended at that moment would take the whole engine with it.
    """
    kernel = get_ipython().kernel
    kernel.pre_handler_hook = kernel.post_handler_hook = lambda: None
    signal.signal(signal.SIGINT, interrupt_code)


def interrupt_code(_, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt where the code of a cell or call runs."""
    while frame is not None:
        caller = frame.f_back.f_code.co_name if frame.f_back else ""
        if frame.f_code.co_name == "<module>" and caller in RUNNERS:
            raise KeyboardInterrupt
        frame = frame.f_back


def stderr_to_log() -> None:
    """Let C++ write its last words to the log, not through a thread of the kernel.

    That thread may lose the race with the end of the process.
    """
    log = getattr(sys.stderr, "_original_stdstream_copy", None)
    if log is not None:
        os.dup2(log, 2)


def refuse_to_exit() -> None:
    """Stand in for what exit() and quit() do in a cell."""
    raise RuntimeError("exit() would end this rank; ranks.stop() ends them all")


def bound(address: str) -> socket.socket:
    """Return a socket that holds a free port at `address`, for a rendezvous by hand.

    It is bound but does not listen. The store of ``env://`` may still listen on the
    port (both sockets allow reuse), while no other process is given it, so two worlds
    never meet there.
    """
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind((address, 0))
    return held


def hold_port(address: str) -> int:
    """Hold a free port as long as this rank lives; return it."""
    held = get_ipython().kernel.held_port = bound(address)
    return held.getsockname()[1]


def place(peer: str) -> dict[str, object]:
    """Tell where this rank runs: pid, host, and its address towards `peer`."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((peer, 9))  # sends nothing; asks the routing table
        address = probe.getsockname()[0]
    return {"pid": os.getpid(), "host": socket.gethostname(), "address": address}


def whereabouts() -> dict[str, object]:
    """Tell on which process, host and device this rank runs."""
    from course_utils.process_group import device

    return {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "local rank": int(os.environ["LOCAL_RANK"]),
        "device": str(device()),
    }


def interface(address: str) -> str:
    """Return the name of the network interface that has `address`."""
    import psutil

    for name, addresses in psutil.net_if_addrs().items():
        if any(a.address == address for a in addresses):
            return name
    raise OSError(f"no network interface of {socket.gethostname()} has {address}")


def perform(parcel: bytes) -> bytes:
    """Call the function in a parcel with its arguments; return the result in one.

    It is called from among the variables of this rank, which `eval` and `exec` take.
    """
    names = get_ipython().user_ns
    given, brought = opened(parcel, names)
    names.update(zip(CALLED, given, strict=True))
    try:
        with standing_in(brought, names):
            result = eval(CALL, names)
    finally:
        for name in CALLED:
            names.pop(name, None)
    return pack(result)


def call(function: str, *args: object) -> object:
    """Call a function of the course by name, as in "process_group:init".

    The client names rank-side functions in this way, so that it need not import
    their modules, and torch with them.
    """
    module, _, name = function.partition(":")
    return getattr(import_module(f"course_utils.{module}"), name)(*args)
