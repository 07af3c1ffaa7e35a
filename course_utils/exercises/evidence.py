"""What a function does on this rank beside what it returns.

The calls of `torch.distributed` that it tries, with the tensors that it passes; the
work that it begins and does not wait for; what it changes in its input, and reads
from the notebook.
"""

from __future__ import annotations

import dis
import inspect
import linecache
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType, FrameType, FunctionType
from typing import Any

import torch
from IPython import get_ipython
from torch import distributed as dist

from course_utils.exercises.answers import Form, Outside
from course_utils.exercises.values import same
from course_utils.guard import WRAPPER
from course_utils.process_group import wait
from course_utils.replay import Call
from course_utils.text import is_cell

MAKES_MESSAGE = "initialised"  # in the guard: P2POp
ASKING = ("is_completed", "get_future")  # other ways to learn that work is done
MOST_TRIED = 64  # calls that an answer carries


@dataclass
class Doings:
    """What a function has done with torch.distributed so far."""

    tried: list[Call] = field(default_factory=list)
    begun: list[str] = field(default_factory=list)
    waits: int = 0
    asked: bool = False

    def look(self, frame: FrameType, event: str, value: Any) -> None:
        """Take note of a call or return that the interpreter reports."""
        if event == "call" and frame.f_code.co_filename == WRAPPER:
            self._call(frame)
        elif event == "call" and frame.f_code is wait.__code__:  # in place of torch's
            self.waits += is_cell(frame.f_back.f_code.co_filename)
        elif event == "c_call" and is_cell(frame.f_code.co_filename):
            name = getattr(value, "__name__", "")
            self.waits += name == "wait"
            self.asked |= name in ASKING
        elif event == "return" and frame.f_back is not None:
            inside, back = frame.f_code, frame.f_back.f_code
            if is_cell(back.co_filename) and not is_cell(inside.co_filename):
                self._returned(inside.co_name, value)

    def _call(self, frame: FrameType) -> None:
        name, values = frame.f_code.co_name, frame.f_locals
        if name == MAKES_MESSAGE:
            given = {n: values[n] for n in ("op", "tensor", "peer")}
            name = "P2POp"
        elif "signature" in values and "args" in values:
            try:
                given = values["signature"].bind(*values["args"], **values["kwargs"])
            except TypeError:
                return
            given.apply_defaults()
            given = given.arguments
        else:
            return
        told = {n: described(value) for n, value in given.items()}
        if len(self.tried) < MOST_TRIED:
            self.tried.append(Call(name, told))

    def _returned(self, name: str, value: Any) -> None:
        for work in value if isinstance(value, list) else [value]:
            if isinstance(work, dist.Work):  # which would keep its buffers alive
                self.begun.append(name)

    def pending(self) -> tuple[str, ...]:
        """Return the calls whose work nobody has waited for, or asked about."""
        if self.asked or self.waits >= len(self.begun):
            return ()
        return tuple(sorted(set(self.begun)))


@contextmanager
def doings() -> Iterator[Doings]:
    """Take note of what happens in a ``with`` block, also where another one looks."""
    found, before = Doings(), sys.getprofile()

    def look(frame: FrameType, event: str, value: Any) -> None:
        if before is not None:
            before(frame, event, value)
        found.look(frame, event, value)

    sys.setprofile(look)
    try:
        yield found
    finally:
        sys.setprofile(before)


def described(value: Any) -> Any:
    """Return tensors as `Form`, numbers, text and lists as they are, or the type.

    Of a group, the ranks in it.
    """
    if isinstance(value, dist.ProcessGroup):
        return tuple(dist.get_process_group_ranks(value))
    if isinstance(value, torch.Tensor):
        return Form(tuple(value.shape), str(value.dtype).removeprefix("torch."))
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple, range)):
        return tuple(described(item) for item in value[:MOST_TRIED])
    return getattr(value, "__name__", type(value).__name__)


def changes(before: Any, after: Any) -> str:
    """Say what a function has changed in its input; "" for nothing.

    before: the input, as it was; after: the copy of it that the function got.
    """
    tensors = list(inside(after))
    if any(t.is_leaf and t.grad is not None for t in tensors):
        return "grad"
    if any(t.requires_grad for t in tensors):
        return "requires_grad"
    if same(before, after):
        return ""
    return "values" if len(list(inside(before))) == len(tensors) else "length"


def inside(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in a value."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from inside(item)


def cell_of(function: Callable) -> str:
    """Return the source of the cell that defines a function; "" if it is unknown."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return "".join(linecache.getlines(code.co_filename)) if code else ""


def outside(function: Callable) -> tuple[Outside, ...]:
    """Return what a function, or one that it calls, reads from the notebook."""
    values, found = get_ipython().user_ns, {}
    pending, met = [inspect.unwrap(function)], set()
    while pending:
        reader = pending.pop()
        if not isinstance(reader, FunctionType) or reader in met:
            continue
        met.add(reader)
        for name in sorted(global_names(reader.__code__)):
            value = values.get(name)
            if isinstance(value, FunctionType):
                if is_cell(value.__code__.co_filename):
                    pending.append(value)
            elif what := sort_of(value):
                number = value if what == "number" else None
                found.setdefault(name, Outside(name, what, number, reader.__name__))
    return tuple(found.values())


def global_names(code: CodeType) -> set[str]:
    """Return the names that code reads from outside all functions."""
    names = {
        str(step.argval)
        for step in dis.get_instructions(code)
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    for const in code.co_consts:
        if isinstance(const, CodeType):
            names |= global_names(const)
    return names


def sort_of(value: Any) -> str:
    """Tell numbers, tensors and lists of these from what is of no interest."""
    if type(value) is int:
        return "number"
    if isinstance(value, torch.Tensor):
        return "tensor"
    if isinstance(value, list) and value:
        return "list" if all(sort_of(item) for item in value) else ""
    return ""
