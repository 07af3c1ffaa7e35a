"""The fork parent: one process that imports torch once and forks worlds.

Started by `engines.fork` as ``python -m course_utils.engines.fork_parent JOB``. It
imports ipyparallel, forks the controller, imports torch while the controller
comes up, and then forks one engine for each request. Forked engines share the
pages of the imported modules, so a rank costs tens of megabytes and a fraction
of a second instead of hundreds and several seconds.

Everything a world consists of is a descendant of this process. The world ends on
request, and then this process can fork the next one at once; it also ends with this
process: when the client ends (however it ends), or, through the parent-death signal,
when this process itself is killed.

Requests and replies are lines of JSON on standard input and output; a signal has no
reply.
Linux only.
"""

from __future__ import annotations

import gc
import json
import os
import select
import shutil
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial

import psutil

from course_utils.engines.forked_controller import controller_main
from course_utils.engines.leash import die_with_parent, prctl
from course_utils.engines.namespaces import Network, Refused

PR_SET_CHILD_SUBREAPER = 36
ENGINE_MODULES = (  # imported by an engine only once it runs
    "IPython.core.completer",
    "IPython.core.completerlib",
    "IPython.core.oinspect",
    "IPython.core.pylabtools",
    "IPython.extensions.storemagic",
    "ipykernel.ipkernel",
    "ipykernel.kernelapp",
    "ipykernel.zmqshell",
    "ipyparallel.engine.kernel",
    "tornado.platform.asyncio",
    "torch.distributed",
)
OPTIONAL = "numpy.random"  # which every engine seeds, where there is numpy


def main() -> None:
    """Fork the controller, then serve requests until the world ends."""
    job = json.loads(sys.argv[1])
    gc.disable()  # until `preload` has ended
    world = World(job, *streams())
    import ipyparallel.controller.app  # noqa: F401

    world.fork_controller(job)
    world.watch_client()
    world.serve(engine(job["preload"]))


def streams() -> tuple[int, int]:
    """Return the descriptors of requests and replies, out of reach of all else.

    Orphans of the processes that are forked from here come here, to be reaped.
    """
    requests, replies = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1):
        os.dup2(nothing, fd)  # nothing that is imported may write to the replies
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    return requests, replies


def engine(modules: list[str]) -> Callable[..., None]:
    """Return what an engine runs, all that it needs being imported.

    modules: that every engine needs, beside torch and ipyparallel's own.
    """
    import ipyparallel.engine.app as engine_app

    from course_utils.engines.connecting import beat_once_connected
    from course_utils.engines.lean import touch_little
    from course_utils.engines.nanny import fork_nanny
    from course_utils.engines.without_nanny import heed_signals

    preload([*ENGINE_MODULES, *modules])
    beat_once_connected()
    engine_app.start_nanny = fork_nanny  # of those that have one
    heed_signals()
    touch_little()
    return engine_app.main


def preload(modules: list[str]) -> None:
    """Import, once for all, what every engine would import for itself."""
    gc.disable()  # what is imported stays: looking for garbage takes a tenth
    sys.modules["debugpy"] = None  # 0.1 s for a debugger that no rank has
    import ipykernel.debugger  # noqa: F401

    del sys.modules["debugpy"]
    for module in modules:
        __import__(module)
    with suppress(ImportError):
        __import__(OPTIONAL)
    gc.freeze()  # a collection in a child would copy every shared page
    gc.enable()


class World:
    """The processes of one world, seen from their parent."""

    def __init__(self, job: dict, requests: int, replies: int) -> None:
        self.folder: str = job["folder"]
        self.variables: dict[str, str] = {}  # all of them; none: those inherited
        self.client: int = job.get("client", 0)
        self.requests, self.replies = requests, replies
        self.children: dict[int, str] = {}  # names by pid
        self.endings: int | None = None  # the pipe in which the controller hears them
        self.exits: dict[int, int] = {}
        self.network: Network | None = None  # of hosts inside this machine
        self.client_fd = pidfd(self.client) if self.client else None
        self.imported = threading.Event()

    def watch_client(self) -> None:
        """End the world when the client ends, also while modules import.

        Requests are read only once the imports are done; until then a thread
        watches, so that a client killed during the start leaves nothing.
        """

        def watch() -> None:
            while not self.imported.wait(0.05):
                if self.abandoned():
                    self.end()

        self.watcher = threading.Thread(target=watch, daemon=True)
        self.watcher.start()

    def abandoned(self) -> bool:
        """Tell whether the client has ended."""
        return os.getppid() != self.client

    def fork_controller(self, job: dict) -> None:
        """Make the hosts of the world, if it has any, and fork its controller."""
        try:
            if job.get("network"):
                self.network = Network(**job["network"])
        except Refused as error:
            self.tell(refused=str(error))
            return
        heard, self.endings = os.pipe()
        os.set_blocking(self.endings, False)
        self.fork(partial(controller_main, heard), job["controller"])
        os.close(heard)

    def fork(self, main, spec: dict) -> None:
        """Fork a child that runs `main` on ``spec["argv"]``; tell its pid."""
        parent, pid = os.getpid(), os.fork()
        if pid == 0:
            for fd in {self.replies, self.requests, self.endings} - {None}:
                os.close(fd)
            run_child(parent, main, spec, self.variables, self.network)
        self.children[pid] = spec["name"]
        self.tell(name=spec["name"], pid=pid)

    def tell(self, **message) -> None:
        """Send one reply; a client that has gone needs none."""
        try:
            os.write(self.replies, json.dumps(message).encode() + b"\n")
        except BrokenPipeError:
            self.end()

    def serve(self, engine_main) -> None:
        """Answer requests; return never."""
        self.imported.set()
        self.watcher.join()  # only a process with one thread may fork
        wakeup, on_signal = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(on_signal)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: self.end())
        self.reap()
        watched = [self.requests, wakeup]
        if self.client_fd is not None:
            watched.append(self.client_fd)
        pending = b""
        while True:
            ready = select.select(watched, [], [])[0]
            if self.client_fd in ready:
                self.end()
            if wakeup in ready:
                os.read(wakeup, 4096)
                self.reap()
            if self.requests in ready:
                chunk = os.read(self.requests, 65536)
                if not chunk:
                    self.end()
                *lines, pending = (pending + chunk).split(b"\n")
                for line in lines:
                    self.answer(json.loads(line), engine_main)

    def answer(self, request: dict, engine_main) -> None:
        """Carry out one request of the client."""
        if request["do"] == "fork":
            self.fork(engine_main, request)
        elif request["do"] == "exits":
            self.reap()
            self.tell(exits=self.exits)
        elif request["do"] == "begin":
            self.folder, self.variables = request["folder"], request["variables"]
            self.fork_controller(request)
        elif request["do"] == "kill":
            kill(self.children.keys() & {request["pid"]})
            self.tell()
        elif request["do"] == "signal":
            self.signal(request["pids"], request["number"])  # no reply
        elif request["do"] == "plug":
            if self.network is not None:  # not ended meanwhile
                self.network.plug(request["host"], request["on"])
            self.tell()
        elif request["do"] == "clear":
            self.clear()
            self.tell(clear=True)
        elif request["do"] == "end":
            self.end()

    def reap(self) -> None:
        """Collect the children that have ended, with their exit status."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self.exits[pid] = os.waitstatus_to_exitcode(status)
            if name := self.children.pop(pid, ""):
                self.tell_controller(name)

    def tell_controller(self, name: str) -> None:
        """Tell the controller that a child has ended, if it is one of this world."""
        if self.endings is None:  # on another host, where the nannies tell it
            return
        with suppress(BrokenPipeError, BlockingIOError):  # it has ended, or hangs
            os.write(self.endings, name.encode() + b"\n")

    def signal(self, pids: list[int], number: int) -> None:
        """Send a signal to children that live."""
        for pid in self.children.keys() & pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def clear(self) -> None:
        """Kill every process of the world at once, and tidy up."""
        kill(self.children)
        rounds = 0
        try:
            while True:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    rounds += 1
                    time.sleep(0.002)
                    if rounds % 50 == 0:  # orphans in a session of their own
                        kill(child.pid for child in psutil.Process().children())
        except ChildProcessError:  # none is left
            pass
        self.children.clear()
        self.exits.clear()
        if self.endings is not None:
            os.close(self.endings)
            self.endings = None
        if self.network is not None:
            self.network.close()
            self.network = None
        shutil.rmtree(self.folder, ignore_errors=True)

    def end(self) -> None:
        """End the world, and exit."""
        self.clear()
        os._exit(0)


def kill(pids: Iterable[int]) -> None:
    """Kill child processes, each with its process group.

    A child that was forked a moment ago has no group of its own yet.
    """
    for pid in pids:
        for how in (os.killpg, os.kill):
            try:
                how(pid, signal.SIGKILL)  # with its helpers
            except ProcessLookupError:
                pass


def pidfd(pid: int) -> int | None:
    """Open a descriptor that turns readable when process `pid` ends."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):  # an old kernel: the pipe's end must do
        return None


def run_child(
    parent: int,
    main,
    spec: dict,
    variables: dict[str, str],
    network: Network | None = None,
) -> None:
    """Become the controller or an engine; never return.

    variables: the client's environment, where it may differ from this process's.
    network: in which ``spec["host"]`` is the host to enter.
    """
    code = 1
    try:
        gc.enable()
        os.setsid()  # a process group of its own, out of reach of Ctrl-C
        die_with_parent(parent)
        for sig in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(sig, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        out = os.open(spec["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(out, 1)
        os.dup2(out, 2)
        if network is not None:
            network.enter(spec["host"])
            die_with_parent(parent)  # the kernel may forget it with new rights
        if variables:
            os.environ.clear()
        os.environ.update(variables | spec["env"])
        os.chdir(spec["cwd"])
        sys.argv = [spec["name"], *spec["argv"]]
        main(argv=spec["argv"])
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
