"""Record what this rank sends and receives while an expression is evaluated.

The interpreter reports the calls, as in `replay.calls`: no function is
replaced, so it makes no difference under which name the learner imported it, and a
rank that waits looks to the watch as it always does.
"""

from __future__ import annotations

import ast
import time
from types import FrameType
from typing import Any, NamedTuple

import torch
from IPython import get_ipython
from torch import distributed as dist

from course_utils.pictures import Snapshot
from course_utils.replay import calls
from course_utils.replay.messages import Operation, Recording

PEER = {"isend": "dst", "irecv": "src"}  # send and recv call them
BATCH = "batch_isend_irecv"
LATEST_START = 1.0  # seconds that a rank waits for the others at most


def record(expression: str, start: int) -> Recording:
    """Evaluate an expression in the learner's names; return what this rank did.

    start: clock, in ns, at which all ranks begin, so that the order of the messages
        is not that in which the notebook reached the ranks.
    """
    names = get_ipython().user_ns
    shard = first_tensor(expression, names)
    code = compile(expression, "<replay>", "eval")
    recorder = Recorder()
    time.sleep(min(max(0, start - time.time_ns()) / 1e9, LATEST_START))
    begun = time.time_ns()
    with calls.observed(recorder.look):
        eval(code, names)
    recorder.end()
    return Recording(begun, shard, tuple(recorder.operations))


def first_tensor(expression: str, names: dict[str, Any]) -> Snapshot | None:
    """Return what the first tensor looks like that the expression names."""
    found = [n for n in ast.walk(ast.parse(expression)) if isinstance(n, ast.Name)]
    for node in sorted(found, key=lambda node: (node.lineno, node.col_offset)):
        if isinstance(names.get(node.id), torch.Tensor):
            return Snapshot.of(names[node.id])
    return None


class Begun(NamedTuple):
    """An operation, the tensor that it reads or fills, and its process group."""

    operation: Operation
    tensor: torch.Tensor
    group: Any


class Recorder:
    """The sends and receives of this rank, from what the interpreter reports."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self._moment = 0
        self._begun: list[Begun] = []
        self._pending: list[tuple[Begun, Any]] = []  # with the work of each
        self._batches = 0

    def look(self, frame: FrameType, event: str, value: Any) -> None:
        """Take in one event of the interpreter, as `sys.setprofile` hands it over."""
        if event == "c_return":
            if getattr(value, "__name__", "") == "wait":
                self.settle()
            return
        code = frame.f_code
        if code.co_filename != calls.LIBRARY or event not in ("call", "return"):
            return
        if code.co_name == BATCH:
            self._batch(event, value)
        elif code.co_name in PEER and event == "call":
            self._begin(code.co_name, frame.f_locals)
        elif code.co_name in PEER and self._begun:
            if value is not None:
                self._pending.append((self._begun.pop(), value))
            elif not self._batches:  # it failed, or this rank is not in the group
                self.operations.remove(self._begun.pop().operation)

    def _batch(self, event: str, works: Any) -> None:
        """Give the operations of a batch its work, where each has none of its own."""
        self._batches += 1 if event == "call" else -1
        if event == "return":
            for begun in self._begun if works else ():
                self._pending.append((begun, works[-1]))
            self._begun.clear()

    def _begin(self, name: str, given: dict[str, Any]) -> None:
        tensor = given["tensor"]
        if not isinstance(tensor, torch.Tensor):
            return  # torch tells
        sends = name == "isend"
        piece = Snapshot.of(tensor) if sends else None
        group, moment = given["group"] or dist.group.WORLD, self._next()
        where = getattr(group, "group_name", ""), given["tag"]
        peer, in_group = given[PEER[name]], given[f"group_{PEER[name]}"]
        if in_group is not None:
            peer = global_rank(group, in_group)
        operation = Operation(sends, peer, where, moment, time.time_ns(), piece)
        self._begun.append(Begun(operation, tensor, group))
        self.operations.append(operation)

    def _next(self) -> int:
        self._moment += 1
        return self._moment

    def settle(self) -> None:
        """Note which operations have ended."""
        now, left = time.time_ns(), []
        for begun, work in self._pending:
            if not work.is_completed():
                left.append((begun, work))
                continue
            operation = begun.operation
            operation.ended, operation.end = self._next(), now
            if not operation.sends:
                operation.piece = Snapshot.of(begun.tensor)
            if operation.peer is None:
                operation.peer = global_rank(begun.group, work._source_rank())
        self._pending = left

    def end(self) -> None:
        """Note what nobody waited for, too, in the order in which it was begun."""
        if any(begun.tensor.is_cuda for begun, _ in self._pending):
            torch.cuda.synchronize()
        self.settle()


def global_rank(group: Any, rank: int) -> int | None:
    """Return the rank in the world of a rank in a group; None if there is none."""
    try:
        return dist.get_global_rank(group, rank)
    except (ValueError, TypeError, KeyError, AttributeError):  # torch tells
        return None
