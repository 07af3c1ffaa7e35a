"""What does a thread wait in? Read from its stack, while it waits.

A collective is told by the library's frames; a call inside C++, such as ``wait`` of
async work, by the innermost frame, which stands in it.
"""

from __future__ import annotations

import ast
import dis
import linecache
import math
import threading
import time
from inspect import getattr_static
from itertools import islice
from types import FrameType

COLLECTIVES = "torch/distributed/distributed_c10d.py"
CONCAT = "course_utils/concat/"
GUARD, COMPARES = "course_utils/guard/comparison.py", ("compare", "confirm")
POLLED = (  # where a wait for MPI, and one for gloo, stands
    "course_utils/mpi_backend/work.py",
    "course_utils/process_group/waits.py",
)
PARALLEL = "torch/nn/parallel/distributed.py"
DTENSOR = "torch/distributed/tensor/_api.py"
OPERATORS = "torch/_ops.py"
FUNCTIONAL = "_c10d_functional."  # operators of functional collectives
WAITING = ("wait", "get", "multi_get")
DISTRIBUTED = ("torch._C._distributed_c10d", "torch.distributed")


def stack(frame: FrameType | None) -> list[FrameType]:
    """Return the frames of a stack, outermost first."""
    frames = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return frames[::-1]


def waiting_call(
    library: list[FrameType], inner: FrameType | None
) -> tuple[str, FrameType | None]:
    """Name the call that waits for other ranks, if there is one, and its frame.

    library: the frames inside the learner's innermost frame `inner`.
    """
    for i, frame in enumerate(library):
        path = frame.f_code.co_filename.replace("\\", "/")
        if path.endswith(POLLED):  # as if it were in C++, like gloo's
            above = library[:i]
            return idle_call(above[-1] if above else inner, above)
        if path.endswith(GUARD) and frame.f_code.co_name in COMPARES:
            return frame.f_locals["name"], frame
        if CONCAT in path or path.endswith(COLLECTIVES):
            return frame.f_code.co_name, frame
    if not library and inner is not None:
        return wait_in(inner), None
    return "", None


def idle_call(
    inner: FrameType, library: list[FrameType]
) -> tuple[str, FrameType | None]:
    """Name what a thread that does not compute waits in, where torch is the reason.

    These meet other ranks inside C++: the constructor and the backward pass of
    DistributedDataParallel, functional collectives, also within what torch.compile
    made, DTensors, ``wait`` of async work. The same functions compute at other times,
    so an idle thread has to be seen as well.

    inner: the innermost frame; library: those inside the learner's innermost frame.
    """
    call = wait_in(inner)
    if call:
        return call, None
    paths = [frame.f_code.co_filename.replace("\\", "/") for frame in library]
    if not paths or "/torch/" not in paths[-1]:
        return "", None
    for frame, path in zip(library, paths, strict=True):
        if path.endswith(PARALLEL):
            name = frame.f_code.co_name
            return "DistributedDataParallel" if name == "__init__" else name, frame
        if path.endswith(DTENSOR) and not frame.f_code.co_name.startswith("_"):
            return frame.f_code.co_name, frame
    for frame, path in reversed(list(zip(library, paths, strict=True))):
        if "/torch/distributed/" in path:
            return frame.f_code.co_name, frame
        if frame.f_code.co_name == "_engine_run_backward":
            return "backward", frame
    return operator(library[-1]), None


def operator(frame: FrameType) -> str:
    """Name the operator of functional collectives that a frame runs; "" if none."""
    if not frame.f_code.co_filename.replace("\\", "/").endswith(OPERATORS):
        return ""
    name = str(
        frame.f_locals.get("self")
    )  # as in "_c10d_functional.wait_tensor.default"
    return name.split(".")[1] if name.startswith(FUNCTIONAL) else ""


def wait_in(inner: FrameType) -> str:
    """Name the ``wait`` or ``get`` that a frame is in the call of; "" if none.

    Without source it is "wait", whatever it is called on.
    """
    called = current_call(inner)
    if called is None:
        return "wait" if method_called(inner) == "wait" else ""
    return ast.unparse(called) if waits(called, inner) else ""


def waits(called: ast.expr, frame: FrameType) -> bool:
    """Tell whether a call is ``wait`` of async work, or ``get`` of a store."""
    if isinstance(called, ast.Name):  # get = store.get
        method = found(called, frame)
        if getattr(method, "__name__", "") not in WAITING:
            return False
        return is_distributed(getattr(method, "__self__", None))
    if not isinstance(called, ast.Attribute) or called.attr not in WAITING:
        return False
    owner = found(called.value, frame)
    if owner is None or isinstance(owner, property):  # works[0].wait() and the like
        return called.attr == "wait" and not isinstance(called.value, ast.Name)
    return is_distributed(owner)


def found(named: ast.expr, frame: FrameType) -> object:
    """Return what a name, or an attribute of one, stands for; None if unknown.

    Nothing of the learner's runs: no property, no call.
    """
    if isinstance(named, ast.Name):
        return frame.f_locals.get(named.id, frame.f_globals.get(named.id))
    if isinstance(named, ast.Attribute):
        return getattr_static(found(named.value, frame), named.attr, None)
    return None


def is_distributed(owner: object) -> bool:
    """Tell whether an object is one of torch.distributed's: a store, a work."""
    return any(c.__module__.startswith(DISTRIBUTED) for c in type(owner).__mro__)


def current_call(frame: FrameType) -> ast.expr | None:
    """Return the function of the call that the frame is in, as an expression."""
    positions = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None))
    if None in positions:
        return None
    first, last, start, end = positions
    name = frame.f_code.co_filename
    lines = [linecache.getline(name, n) for n in range(first, last + 1)]
    lines[-1] = lines[-1].encode()[:end].decode(errors="ignore")
    lines[0] = lines[0].encode()[start:].decode(errors="ignore")
    try:
        node = ast.parse("".join(lines).strip(), mode="eval").body
    except SyntaxError:
        return None
    return node.func if isinstance(node, ast.Call) else None


def method_called(frame: FrameType) -> str:
    """Return the method that a frame is in the call of; "" if it is no method.

    From the bytecode, for code whose source is not known on this machine.
    """
    steps = [s for s in dis.get_instructions(frame.f_code) if s.offset <= frame.f_lasti]
    if not steps or steps[-1].positions is None:
        return ""
    begins = steps[-1].positions[0], steps[-1].positions[2]  # where the call does
    for step in reversed(steps):
        if step.opname in ("LOAD_METHOD", "LOAD_ATTR") and step.positions:
            if (step.positions[0], step.positions[2]) == begins:
                return str(step.argval)
    return ""


def joins(frame: FrameType) -> bool:
    """Tell whether a frame waits for another thread."""
    return frame.f_code.co_filename == threading.__file__


def seconds_of(thread: int) -> float:
    """Return the CPU seconds of a thread; infinity where they are not known."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return math.inf
    return time.clock_gettime(time.pthread_getcpuclockid(thread))
