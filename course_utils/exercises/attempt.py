"""Run a learner's function on this rank, in one case of an exercise."""

from __future__ import annotations

import ast
import inspect
import linecache
import os
import re
from collections.abc import Callable
from contextlib import nullcontext
from types import CodeType, FrameType, TracebackType
from typing import Any

from IPython import get_ipython
from torch import distributed as dist

from course_utils.exercises.answers import Answer, Case
from course_utils.exercises.lessons import find
from course_utils.exercises.values import addresses, copied, plain, same
from course_utils.guard import WRAPPER
from course_utils.measure import Memory, peak_memory
from course_utils.replay import LIBRARY, WRAPPERS, arguments, recorded
from course_utils.text import indent, is_cell, readable
from course_utils.world import short_traceback

PEERS = ("src", "dst")
SOURCE_WIDTH = 44  # of the line of source that a rank waits in
MESSAGE_LINES, MESSAGE_WIDTH = 8, 200  # of an error that an answer shows
LEFT_ALONE = re.compile(
    r"timed? ?out|monitoredBarrier|closed by peer|reset by peer", re.I
)


def survey(name: str) -> str:
    """Tell whether this rank has a function `name`: "missing", "ready" or a type."""
    names = get_ipython().user_ns
    if name not in names:
        return "missing"
    return "ready" if callable(names[name]) else type(names[name]).__name__


def attempt(exercise_id: str, case: Case, path: str) -> Answer:
    """Call the learner's function with fresh inputs; return what came of it.

    path: of a file that does not exist yet, the same on every rank.
    """
    exercise, rank = find(exercise_id), int(os.environ["RANK"])
    function = get_ipython().user_ns[exercise.function]
    inputs = exercise.inputs(case, path)
    given = copied(inputs[rank])
    measuring = peak_memory() if exercise.measured else nullcontext(Memory())
    with measuring as memory, recorded() as made:
        try:
            outcome = {"state": "returned", "yours": function(*given)}
        except BaseException as error:  # SystemExit and interrupts are answers, too
            outcome = failure(error)
    expected = exercise.oracle(case, inputs)[rank]
    facts = {
        "inputs": plain(inputs[rank]),
        "expected": plain(expected),
        "calls": tuple(made),
        "changed": not same(inputs[rank], given),
        "outside": outside(function),
        "after": default_group(),
        "peak": memory.peak,
    }
    if outcome["state"] == "returned":
        facts |= judged(expected, outcome.pop("yours"), given, exercise.may_share)
        facts["right"] = facts["right"] and not facts["changed"]
    return Answer(**outcome, **facts)


def judged(expected: Any, yours: Any, given: tuple, may_share: bool) -> dict[str, Any]:
    """Compare a result with the expected one, in value and in memory."""
    items = yours if isinstance(yours, (list, tuple)) else []
    memory = [set(addresses(item)) for item in items]
    aliases = tuple(
        (i, j) for j in range(len(memory)) for i in range(j) if memory[i] & memory[j]
    )
    shares = not may_share and bool(set(addresses(yours)) & set(addresses(given)))
    right = same(expected, yours) and not aliases and not shares
    return {"right": right, "yours": plain(yours), "aliases": aliases, "shares": shares}


def failure(error: BaseException) -> dict[str, str]:
    """Describe an exception: of the learner's line, or of a wait that was in vain."""
    call, place = whereabouts(error.__traceback__)
    if isinstance(error, KeyboardInterrupt):
        if not call:
            return {"state": "looped", "place": loop(error.__traceback__) or place}
        return {"state": "waited", "error": call, "place": place}
    if isinstance(error, RuntimeError) and LEFT_ALONE.search(str(error)):
        call = call or ("wait()" if ".wait(" in place else "a collective")
        return {"state": "waited", "error": call, "place": place}
    places = short_traceback(type(error), error)
    first = " ".join([type(error).__name__, *places[:1]])
    message = [line[:MESSAGE_WIDTH] for line in readable(str(error)).split("\n")]
    more = indent("\n".join([*places[1:], *message[:MESSAGE_LINES]]).rstrip())
    return {"state": "raised", "error": "\n".join(filter(None, [first, *more]))}


def whereabouts(tb: TracebackType | None) -> tuple[str, str]:
    """Return the call of torch.distributed in a traceback, and the cell's line."""
    call = place = ""
    while tb is not None:
        filename, names = tb.tb_frame.f_code.co_filename, tb.tb_frame.f_locals
        if filename == WRAPPER and "function" in names:
            return f"{names['function'].__name__}()", place
        if filename == LIBRARY:
            return called(tb.tb_frame), place
        if filename == WRAPPERS and "func" in names:
            call = f"{names['func'].__name__}()"  # as good as in it
        if is_cell(filename):
            line = linecache.getline(filename, tb.tb_lineno).strip()
            place = f"at line {tb.tb_lineno}: {cut(line)}"
        tb = tb.tb_next
    return call, place


def called(frame: FrameType) -> str:
    """Write a call of torch.distributed with the ranks that it names."""
    given = arguments(frame)
    named = [f"{n}={given[n]}" for n in PEERS if given.get(n) is not None]
    return f"{frame.f_code.co_name}({', '.join(named)})"


def loop(tb: TracebackType | None) -> str:
    """Say where the outermost loop stands that was interrupted."""
    while tb is not None and not is_cell(tb.tb_frame.f_code.co_filename):
        tb = tb.tb_next
    if tb is None:
        return ""
    lines = linecache.getlines(tb.tb_frame.f_code.co_filename)
    try:
        nodes = list(ast.walk(ast.parse("".join(lines))))
    except SyntaxError:  # the cell has a magic in it
        return ""
    first = min(
        (
            node.lineno
            for node in nodes
            if isinstance(node, (ast.For, ast.While))
            and node.lineno <= tb.tb_lineno <= node.end_lineno
        ),
        default=0,
    )
    return f"at line {first}: {cut(lines[first - 1].strip())}" if first else ""


def cut(line: str) -> str:
    """Shorten a line of source that is too long for a verdict."""
    return line if len(line) <= SOURCE_WIDTH else f"{line[: SOURCE_WIDTH - 1]}…"


def outside(function: Callable) -> dict[str, int]:
    """Return the whole numbers that a function reads from the notebook, by name."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    names, values = set(), get_ipython().user_ns
    pending = [code] if code else []
    while pending:
        code = pending.pop()
        names.update(code.co_names)
        pending += [const for const in code.co_consts if isinstance(const, CodeType)]
    return {n: values[n] for n in sorted(names) if type(values.get(n)) is int}


def default_group() -> dict[str, Any]:
    """Tell which default process group is up on this rank."""
    if not dist.is_initialized():
        return {"initialised": False}
    return {
        "initialised": True,
        "rank": dist.get_rank(),
        "world_size": dist.get_world_size(),
    }
