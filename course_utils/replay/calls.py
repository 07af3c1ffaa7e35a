"""Record which functions of torch.distributed, and of `concat`, a function calls."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from torch import distributed as dist

from course_utils import concat
from course_utils.guard import check_peer, comparable, compare, confirm, recall
from course_utils.replay.call import Call

LIBRARY = dist.distributed_c10d.__file__
NAMES = {
    LIBRARY: {name for name in dir(dist) if not name.startswith("_")},
    inspect.unwrap(concat.all_gather_cat).__code__.co_filename: set(concat.__all__),
}
WRAPPERS = dist.c10d_logger.__file__  # around most of its functions
ITS_OWN = (recall, comparable, compare, confirm, check_peer)  # calls of the guard
INSIDE = {function.__code__ for function in ITS_OWN}
POINT_TO_POINT = "P2POp.__init__"  # one entry of batch_isend_irecv


@contextmanager
def observed(look: Callable[[FrameType, str, Any], None]) -> Iterator[None]:
    """Hand every call and return of this thread in a ``with`` block to `look`."""
    sys.setprofile(look)
    try:
        yield
    finally:
        sys.setprofile(None)


@contextmanager
def recorded() -> Iterator[list[Call]]:
    """Record the calls made in a ``with`` block, under whatever name.

    The interpreter reports every call, so it makes no difference how the function
    was imported. Only the outermost call counts: all_gather_object, not the
    all_gather within it.
    """
    calls: list[Call] = []
    depth = 0

    def look(frame: FrameType, event: str, _: object) -> None:
        nonlocal depth
        if event not in ("call", "return"):
            return
        code = frame.f_code
        if code.co_filename not in NAMES and code not in INSIDE:
            return
        if event == "return":
            depth -= 1
            return
        depth += 1
        if depth > 1 or code in INSIDE:
            return
        if code.co_name in NAMES[code.co_filename]:
            calls.append(Call(code.co_name, arguments(frame)))
        elif code.co_qualname == POINT_TO_POINT:
            calls.append(Call("P2POp", arguments(frame)))

    with observed(look):
        yield calls


def arguments(frame: FrameType) -> dict[str, Any]:
    """Return the arguments with which the function of a frame was called."""
    code = frame.f_code
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return {name: told(frame.f_locals.get(name)) for name in names}


def told(value: Any) -> Any:
    """Return numbers, text and lists of them; of all else the name or the type."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, (list, tuple, range)):
        return tuple(told(item) for item in value)
    return getattr(value, "__name__", type(value).__name__)
